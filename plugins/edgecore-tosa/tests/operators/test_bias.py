"""The bias of a quantized layer, an integer of the accumulator's dtype."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from tosa_lowered import library, run_quantized

INPUT, WEIGHT, RESULT = 0.001, 0.01, 300.0
"""Scales: a step of the int32 accumulator is INPUT * WEIGHT."""


class Layer(nn.Module):
    def __init__(self, bias: float) -> None:
        super().__init__()
        self.register_buffer("weight", torch.ones(4, 8, dtype=torch.int8))
        self.register_buffer("bias", torch.full((4,), bias))

    def forward(self, x):
        bytes_ = (0, -128, 127, torch.int8)
        x = library.dequantize_per_tensor.default(
            library.quantize_per_tensor.default(x, INPUT, *bytes_), INPUT, *bytes_
        )
        weight = library.dequantize_per_tensor.default(self.weight, WEIGHT, *bytes_)
        result = nn.functional.linear(x, weight, self.bias)
        return library.dequantize_per_tensor.default(
            library.quantize_per_tensor.default(result, RESULT, *bytes_), RESULT, *bytes_
        )


@pytest.mark.parametrize("sign", [1, -1])
def test_a_bias_beyond_the_accumulator_saturates(sign):
    x = (torch.zeros(1, 8),)
    outcome = run_quantized(torch.export.export(Layer(sign * 1e7), x), x)
    assert np.array_equal(outcome.simulator, np.full((1, 4), round(sign * 2**31 * INPUT * WEIGHT / RESULT)))
