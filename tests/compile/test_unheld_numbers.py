"""The report names numbers that a backend's low precision does not hold."""

from __future__ import annotations

import warnings

import pytest
import torch

import edgecore

X = torch.randn(2, 16)


class Numbers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(16, eps=1e-12)
        self.register_buffer("mask", torch.tensor([0.0, torch.finfo(torch.float32).min]).repeat(8))

    def forward(self, x):
        return torch.softmax(self.norm(x) + self.mask, -1) + 1e-12 + torch.where(x > 0, x, 1e38)


CHOICES = {
    "coreml": {"compute_precision": "FLOAT16"},
    "openvino": {"precision": "f16"},
    "qnn": {},
}


def report(backend, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return edgecore.compile(Numbers().eval(), (X,), backends=[backend], **settings).report()


@pytest.mark.parametrize("name", CHOICES)
def test_numbers_that_float16_does_not_hold_are_named(name):
    pytest.importorskip(f"edgecore_{name}")
    lines = report(edgecore.Backend(name, **CHOICES[name])).unheld
    assert all(__file__.rpartition("/")[2] in line for line in lines)
    text = "\n".join(lines)
    assert "mask = -3.403e+38 is beyond float16" in text and "= 1e-12 is 0 in float16" in text
    assert "aten.add" in text and "eps" in text


def test_the_recipe_fp16_names_them():
    pytest.importorskip("edgecore_xnnpack")
    assert any("beyond float16" in line for line in report("xnnpack", quantize="fp16").unheld)


def test_float32_holds_all_of_them():
    pytest.importorskip("edgecore_xnnpack")
    assert report("xnnpack").unheld == []
