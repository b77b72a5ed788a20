"""The kernels of int16 layers give the same bits as the arithmetic of edgecore.ir.int16_operators, everywhere."""

from __future__ import annotations

import pytest
import torch
from emulated_library import EmulatedLibrary
from native import KernelError
from test_int8 import CONVOLUTIONS, random_int8

from edgecore.ir import int16_operators  # noqa: F401  (registers its operators)

FULL = (-32768, 32767)
POINTWISE = ((1, 1), (0, 0), (1, 1), (1, 1), (0, 0))
MORE_CONVOLUTIONS = {
    "pointwise of a depth that 32 bits do not hold": (1, 1100, 9, 1, (3, 7), (1, 1), *POINTWISE),
    "depthwise of as many taps": (1, 2, 4, 2, (29, 70), (26, 25), (1, 1), (2, 3), (1, 1), (1, 1), (0, 0)),
    "depthwise of as many taps and stride": (1, 2, 2, 2, (29, 70), (27, 23), (2, 3), (2, 3), (1, 1), (1, 1), (0, 0)),
}
ALL_CONVOLUTIONS = CONVOLUTIONS | MORE_CONVOLUTIONS
CHANNELS = (
    (2**45, 2**16 - 1, 46), (-(2**45), 2**15, 62), (2**45 + 2**44, 2**15 + 1, 45),
    (-9, 2**15, 1), (-9, 2**16 - 1, 2), (2**41, 40000, 2), (-(2**41), 40001, 2), (-1, 2**15, 16),
    (2**20, 50000, 31), (2**20, 50000, 32), (-(2**20), 50000, 33),
    (2**36, 65535, 38), (-(2**36), 65535, 38), (2**33 + 2**30, 2**15, 31),
)  # fmt: skip
"""Biases, multipliers and shifts: the largest ones, and those that words of 32 bits may get wrong."""

LINEARS = ((1, 1, 1), (1, 131, 10), (3, 1200, 6), (7, 32, 5), (8, 17, 19), (9, 1111, 7), (70, 65, 33))
"""Rows, depth, outputs."""


def random_int16(*shape, seed=0):
    return torch.randint(-(2**15), 2**15, shape, dtype=torch.int16, generator=torch.Generator().manual_seed(seed))


def channel_numbers(count, depth, seed=0):
    """Biases, multipliers and shifts, int64 [3, count]: results of sums of `depth` products fill most of the range."""
    generator = torch.Generator().manual_seed(seed)
    bias = torch.randint(-(2**20), 2**20, (count,), generator=generator)
    multiplier = torch.randint(2**15, 2**16, (count,), generator=generator)
    shift = torch.randint(22, 24, (count,), generator=generator) + depth.bit_length() // 2
    return torch.stack([bias, multiplier, shift])


def convolution_arguments(case):
    batch, inputs, outputs, groups, size, kernel, *geometry = ALL_CONVOLUTIONS[case]
    weight = random_int8(outputs, inputs // groups, *kernel, seed=1)
    numbers = channel_numbers(outputs, weight[0].numel())
    lists = [list(values) for values in geometry]
    return (random_int16(batch, inputs, *size), weight, numbers, *lists, groups, -30000, 31000)


def linear_arguments(rows, depth, outputs):
    return random_int16(rows, depth), random_int8(outputs, depth, seed=1), channel_numbers(outputs, depth), *FULL


def with_largest_products(arguments):
    """Return the arguments with values and weights whose sums are as large as they can be, and shifts for such sums."""
    input, weight, numbers, *rest = arguments
    numbers = numbers.clone()
    numbers[0] //= 1000
    numbers[2] = 24 + weight[0].numel().bit_length()
    signs = torch.arange(weight.shape[0]).reshape(-1, *[1] * (weight.ndim - 1)) % 2
    return (
        torch.full_like(input, -32768),
        (127 - 254 * signs).to(torch.int8).expand_as(weight).contiguous(),
        numbers,
        *rest,
    )


def with_channels(arguments, bias, multiplier, shift):
    """Return the arguments with these numbers for all channels."""
    input, weight, numbers, *rest = arguments
    count = numbers.shape[1]
    return input, weight, torch.tensor([bias, multiplier, shift])[:, None].repeat(1, count), *rest


def cases():
    """Operator and arguments of each call."""
    for case in ALL_CONVOLUTIONS:
        arguments = convolution_arguments(case)
        yield f"convolution: {case}", "int16_convolution", arguments
        yield f"convolution: {case}, largest", "int16_convolution", with_largest_products(arguments)
    for shape in LINEARS:
        arguments = linear_arguments(*shape)
        yield f"linear: {shape}", "int16_linear", arguments
        yield f"linear: {shape}, largest", "int16_linear", with_largest_products(arguments)
    for rows in (2, 9):
        yield f"linear: {rows} rows without elements", "int16_linear", linear_arguments(rows, 0, 5)
    for numbers in CHANNELS:
        for rows in (2, 9):
            arguments = with_channels(linear_arguments(rows, 33, 5), *numbers)
            yield f"linear: {rows} rows, channels of {numbers}", "int16_linear", arguments
        arguments = with_channels(convolution_arguments("plain"), *numbers)
        yield f"convolution: channels of {numbers}", "int16_convolution", arguments
        arguments = with_channels(convolution_arguments("depthwise"), *numbers)
        yield f"depthwise: channels of {numbers}", "int16_convolution", arguments


CASES = {name: (operator, arguments) for name, operator, arguments in cases()}


def check_call(library, name):
    operator, arguments = CASES[name]
    expected = getattr(torch.ops.edgecore, operator)(*arguments)
    out = torch.zeros(expected.shape, dtype=torch.int16)
    library.call(f"edgecore::{operator}.out", *arguments, out)
    assert torch.equal(out, expected), name


@pytest.mark.parametrize("name", CASES)
def test_layers_give_the_bits_of_the_reference(build, name):
    check_call(build, name)


def test_layers_of_arm_give_the_same_bits(arm64_program):
    with EmulatedLibrary(arm64_program, "cortex-a53") as library:
        for name in CASES:
            check_call(library, name)


def test_results_of_the_cases_fill_their_range():
    """Saturated results would hide a wrong sum."""
    for name, (operator, arguments) in CASES.items():
        result = getattr(torch.ops.edgecore, operator)(*arguments)
        if "largest" in name or ("channels of" not in name and result.numel() > 20):
            assert result.ne(arguments[-2]).logical_and(result.ne(arguments[-1])).double().mean() > 0.6, name
            assert result.abs().max() > 2000, name


def test_convolutions_read_strided_int16_values(build):
    input, *rest = convolution_arguments("plain")
    strided = input.to(memory_format=torch.channels_last)
    expected = torch.ops.edgecore.int16_convolution(input, *rest)
    out = torch.zeros(expected.shape, dtype=torch.int16).to(memory_format=torch.channels_last)
    build.call("edgecore::int16_convolution.out", strided, *rest, out)
    assert torch.equal(out, expected)


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
