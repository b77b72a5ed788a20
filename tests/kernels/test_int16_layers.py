"""The kernels of int16 layers: the cases of `test_integers.py` do not saturate; refused arguments."""

from __future__ import annotations

import pytest
import torch
from int8_cases import random_int8
from int16_layer_cases import CASES, channel_numbers, convolution_arguments, linear_arguments, random_int16
from native import KernelError


def test_results_of_the_cases_fill_their_range():
    """Saturated results would hide a wrong sum."""
    for name, (operator, arguments) in CASES.items():
        result = getattr(torch.ops.edgecore, operator)(*arguments)
        if "largest" in name or ("channels of" not in name and result.numel() > 20):
            assert result.ne(arguments[-2]).logical_and(result.ne(arguments[-1])).double().mean() > 0.6, name
            assert result.abs().max() > 2000, name


def channels_with(row, value):
    numbers = channel_numbers(16, 27)
    numbers[row] = value
    return numbers


@pytest.mark.parametrize(
    ("operator", "position", "value", "message"),
    [
        ("int16_convolution", 0, random_int8(2, 3, 23, 31), "the values must be int16"),
        ("int16_convolution", 1, random_int16(16, 3, 3, 3), "the values must be int8"),
        ("int16_convolution", 2, torch.zeros(3, 16, dtype=torch.int32), "channels must be int64"),
        ("int16_convolution", 2, torch.zeros(3, 15, dtype=torch.int64), "for each output channel"),
        ("int16_convolution", 2, channels_with(1, 2**16), "multipliers must be in [2^15, 2^16), shifts in [1, 62]"),
        ("int16_convolution", 2, channels_with(1, 2**32 + 2**15), "multipliers must be in"),
        ("int16_convolution", 2, channels_with(2, 63), "multipliers must be in"),
        ("int16_convolution", 9, 31001, "lower limit"),
        ("int16_convolution", 10, 32768, "argument 10 is 32768, not in [-32768, 32767]"),
        ("int16_linear", 1, random_int8(5, 31), "must have the same size"),
        ("int16_linear", 3, -40000, "argument 3 is -40000"),
    ],
)
def test_wrong_arguments_of_int16_layers_are_errors(build, operator, position, value, message):
    arguments = list(convolution_arguments("plain") if operator == "int16_convolution" else linear_arguments(7, 32, 5))
    arguments[position] = value
    shape = (2, 16, 12, 16) if operator == "int16_convolution" else (7, 5)
    with pytest.raises(KernelError) as caught:
        build.call(f"edgecore::{operator}.out", *arguments, torch.zeros(shape, dtype=torch.int16))
    assert message in caught.value.text


def test_results_of_int16_layers_are_int16(build):
    for operator, arguments in (
        ("int16_convolution", convolution_arguments("plain")),
        ("int16_linear", linear_arguments(7, 32, 5)),
    ):
        with pytest.raises(KernelError, match="out must be int16"):
            build.call(f"edgecore::{operator}.out", *arguments, torch.zeros(1, dtype=torch.int8))
