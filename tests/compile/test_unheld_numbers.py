"""The report names numbers that a backend's low precision does not hold."""

from __future__ import annotations

import warnings

import pytest
import torch

import edgecore
from edgecore.errors import PrecisionWarning

X = torch.randn(2, 16)


class Numbers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(16, eps=1e-12)
        self.register_buffer("mask", torch.tensor([0.0, torch.finfo(torch.float32).min]).repeat(8))

    def forward(self, x):
        return torch.softmax(self.norm(x) + self.mask, -1) + 1e-12 + torch.where(x > 0, x, 1e38)


CHOICES = {
    "coreml": ({"compute_precision": "FLOAT16"}, {}),
    "openvino": ({"precision": "f16"}, {}),
    "vulkan": ({"force_fp16": True}, {}),
    "xnnpack": ({"force_fp16": True}, {}),
    "qnn": ({}, {}),
    "vulkan-fp16": ({}, {"quantize": "fp16"}),
    "xnnpack-fp16": ({}, {"quantize": "fp16"}),
    "qnn-fp16": ({}, {"quantize": "fp16"}),
}
"""Options and settings with which backends compute in float16."""


def compiled(name, options, settings):
    """Compile `Numbers`; return the program and the texts of the warnings about precision."""
    backend = name.partition("-")[0]
    pytest.importorskip(f"edgecore_{backend}")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PrecisionWarning)
        program = edgecore.compile(Numbers().eval(), (X,), backends=[edgecore.Backend(backend, **options)], **settings)
    assert all(warning.filename == __file__ for warning in caught if warning.category is PrecisionWarning)
    return program, [str(warning.message) for warning in caught if warning.category is PrecisionWarning]


@pytest.mark.parametrize("name", CHOICES)
def test_one_warning_names_the_numbers_that_float16_does_not_hold(name):
    program, (text,) = compiled(name, *CHOICES[name])
    assert "aten.add" in text and "eps = 1e-12 is 0 in float16" in text and "1e+38 is beyond float16" in text
    lines = program.report().unheld
    assert all(__file__.rpartition("/")[2] in line for line in lines) and len(lines) == 4
    (mask,) = (line for line in lines if line not in text)
    assert "mask = -3.403e+38 is beyond float16" in mask


@pytest.mark.parametrize(
    "options, settings",
    [({}, {}), ({"half_weights": True}, {}), ({}, {"quantize": "fp16"})],
    ids=["float32", "half-weights", "fp16"],
)
def test_openvino_in_float32_holds_all_of_them(options, settings):
    program, texts = compiled("openvino", options, settings)
    assert program.report().unheld == texts == []


def test_float32_holds_all_of_them():
    program, texts = compiled("xnnpack", {}, {})
    assert program.report().unheld == texts == []
