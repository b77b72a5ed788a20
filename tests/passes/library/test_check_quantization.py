"""Parameters of quantization that no compiler can use are refused, with the node and the channel."""

from __future__ import annotations

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators

import edgecore
from edgecore.errors import CompileError

library = torch.ops.quantized_decomposed


class PerTensor(torch.nn.Module):
    def __init__(self, scale, zero_point):
        super().__init__()
        self.parameters_of_x = (scale, zero_point, -128, 127, torch.int8)

    def forward(self, x):
        quantized = library.quantize_per_tensor.default(x, *self.parameters_of_x)
        return library.dequantize_per_tensor.default(quantized, *self.parameters_of_x)


class PerChannel(torch.nn.Module):
    def __init__(self, scales, zero_points):
        super().__init__()
        self.register_buffer("weight", torch.ones(3, 4, dtype=torch.int8))
        self.register_buffer("scales", torch.tensor(scales))
        self.register_buffer("zero_points", torch.tensor(zero_points))

    def forward(self, x):
        parameters = (self.scales, self.zero_points, 0, -128, 127, torch.int8)
        return torch.nn.functional.linear(x, library.dequantize_per_channel.default(self.weight, *parameters))


def compiled(model):
    return edgecore.compile(model.eval(), (torch.randn(2, 4),))


@pytest.mark.parametrize("scale", [float("nan"), float("inf"), -float("inf"), 1e-39])
def test_a_scale_that_is_no_normal_number_is_refused(scale):
    with pytest.raises(CompileError, match=r"quantize_per_tensor.*the scale is \S+, but must be 0 or a finite, normal"):
        compiled(PerTensor(scale, 0))
    with pytest.raises(CompileError, match="dequantize_per_channel.*the scale of channel 1 is"):
        compiled(PerChannel([1.0, scale, 1.0], [0, 0, 0]))


@pytest.mark.parametrize("zero_point", [-129, 128])
def test_a_zero_point_outside_of_the_integer_type_is_refused(zero_point):
    with pytest.raises(CompileError, match=f"the zero point is {zero_point}, but must be from -128 to 127"):
        compiled(PerTensor(0.5, zero_point))
    with pytest.raises(CompileError, match=f"the zero point of channel 2 is {zero_point}"):
        compiled(PerChannel([1.0, 1.0, 1.0], [0, 0, zero_point]))


def test_zero_points_at_the_limits_and_scales_of_zero_are_taken():
    x = torch.randn(2, 4)
    for model in (PerTensor(0.5, -128), PerChannel([1.0, 0.0, 2.0], [0, 127, -128])):
        program = compiled(model)
        torch.testing.assert_close(edgecore.load(program.buffer).forward(x), model(x))


def test_zero_points_in_floating_point_may_be_outside_of_the_type():
    x = torch.randn(2, 4)
    model = PerChannel([1.0, 0.5, 2.0], [-200.5, 0.25, 300.0])
    torch.testing.assert_close(edgecore.load(compiled(model).buffer).forward(x), model(x))
