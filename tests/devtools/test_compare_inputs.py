"""The inputs of `edgecore.devtools.compare`: keywords, nested inputs, several outputs, and what does not fit."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from edgecore.devtools import compare
from edgecore.errors import CompileError


class Keywords(nn.Module):
    def forward(self, x, *, scale):
        return {"scaled": x * scale, "largest": x.argmax(-1), "rows": x.shape[0], "none": None}


class Nested(nn.Module):
    def forward(self, inputs):
        return inputs["x"] - 2 * inputs["more"][0]


def test_keyword_inputs_may_have_any_order_and_all_kinds_of_outputs_are_compared():
    first = {"x": torch.randn(3, 4), "scale": torch.full((4,), 2.0)}
    second = {"scale": torch.full((4,), 3.0), "x": torch.randn(3, 4)}
    report = compare(Keywords().eval(), [first, second])
    assert report.ok and report.conditions.samples == 2, str(report)
    assert [output.own.differing for output in report.outputs] == [0, 0, 0, 0]


def test_nested_inputs_are_compared_with_the_model():
    report = compare(Nested().eval(), ({"x": torch.randn(3), "more": [torch.randn(3)]},))
    assert report.ok and report.outputs[0].of_device.sqnr > 100, str(report)


def test_inputs_that_do_not_fit_are_one_sentence():
    net, sample = nn.Linear(4, 4).eval(), (torch.randn(3, 4),)
    with pytest.raises(CompileError, match="sample 1 has inputs of another number"):
        compare(net, [sample, (*sample, torch.randn(3))])
    with pytest.raises(CompileError, match="pass at least one sample"):
        compare(net, [])
    with pytest.raises(CompileError, match="pass at least one sample"):
        compare(net, quantize="int8", calibration=[], backends="xnnpack")
