"""Convolutions of sequences and images."""

from __future__ import annotations

import pytest
import torch
from lowered import check, refusals
from torch import nn

import edgecore

CONVOLUTIONS = {
    "plain": (nn.Conv2d(3, 8, 3), (1, 3, 9, 11)),
    "batch of two, stride, padding, no bias": (nn.Conv2d(3, 5, (3, 5), (2, 1), (1, 2), bias=False), (2, 3, 12, 7)),
    "dilation": (nn.Conv2d(4, 4, 3, padding=2, dilation=2), (1, 4, 9, 9)),
    "padding same": (nn.Conv2d(4, 4, 4, padding="same"), (1, 4, 9, 9)),
    "padding valid": (nn.Conv2d(3, 8, 3, 2, padding="valid"), (1, 3, 9, 8)),
    "padding valid, depthwise": (nn.Conv2d(4, 4, 3, padding="valid", groups=4), (1, 4, 8, 9)),
    "padding valid, 1-d": (nn.Conv1d(3, 5, 3, 2, padding="valid"), (2, 3, 11)),
    "padding valid, 1-d depthwise": (nn.Conv1d(4, 4, 3, padding="valid", groups=4), (1, 4, 11)),
    "one input channel": (nn.Conv2d(1, 6, 3), (1, 1, 8, 8)),
    "depthwise": (nn.Conv2d(7, 7, 3, padding=1, groups=7), (1, 7, 8, 9)),
    "depthwise, two filters each": (nn.Conv2d(5, 10, 3, 2, groups=5), (2, 5, 9, 9)),
    "grouped": (nn.Conv2d(6, 9, 3, groups=3), (1, 6, 7, 7)),
    "transposed": (nn.ConvTranspose2d(4, 6, 3, 2, 1), (1, 4, 5, 7)),
    "transposed, grouped, output padding": (nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, groups=2), (2, 4, 5, 5)),
    "transposed, dilated, no bias": (nn.ConvTranspose2d(2, 3, 3, dilation=2, bias=False), (1, 2, 5, 5)),
    "1-d": (nn.Conv1d(3, 5, 3, 2, 1, bias=False), (2, 3, 11)),
    "1-d depthwise": (nn.Conv1d(4, 4, 3, groups=4, dilation=2), (1, 4, 11)),
    "1-d transposed": (nn.ConvTranspose1d(3, 5, 4, 2, 1), (1, 3, 6)),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_equals_eager(name: str) -> None:
    module, shape = CONVOLUTIONS[name]
    check(module, torch.randn(shape))


class OneNumberForAllDims(nn.Module):
    """Lists of one number, as torch gives them where the model has a number or a word."""

    def __init__(self, transposed: bool, dims: int, groups: int) -> None:
        super().__init__()
        self.arguments = ([2], [1], [1], transposed, [int(transposed)], groups)
        self.weight, self.bias = nn.Parameter(torch.randn(4, 4 // groups, *[3] * dims)), nn.Parameter(torch.randn(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.convolution(x, self.weight, self.bias, *self.arguments)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("dims", [1, 2])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_convolution_with_lists_of_one_number_equals_eager(transposed: bool, dims: int, groups: int) -> None:
    check(OneNumberForAllDims(transposed, dims, groups), torch.randn(1, 4, *(6, 9)[:dims]))


def test_convolution_of_computed_weights_is_refused() -> None:
    reasons = refusals(torch.conv2d, torch.randn(1, 3, 5, 5), torch.randn(2, 3, 3, 3))
    assert reasons["aten.convolution.default"] == "weight not constant"


def test_a_transposed_convolution_with_fewer_columns_than_steps_is_right_or_an_error() -> None:
    module = nn.ConvTranspose2d(3, 2, 3, stride=4, padding=1).eval()
    single = torch.randn(1, 3, 5, 1)
    check_static = edgecore.load(edgecore.compile(module, (single,), backends=["xnnpack"]).buffer).forward(single)
    torch.testing.assert_close(torch.from_dlpack(check_static), module(single))
    example = torch.randn(1, 3, 5, 6)
    width = ({3: torch.export.Dim("width", min=1, max=9)},)
    program = edgecore.load(
        edgecore.compile(module, (example,), backends=["xnnpack"], dynamic_shapes=width).buffer, threads=1
    )
    torch.testing.assert_close(torch.from_dlpack(program.forward(example)), module(example), rtol=1e-4, atol=1e-5)
    with pytest.raises(edgecore.errors.ExecutionError, match="the output is smaller than the stride - 1"):
        program.forward(single)
