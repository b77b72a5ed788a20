"""Calls of the layers on int16 values."""

from __future__ import annotations

import torch
from int8_cases import CONVOLUTIONS, random_int8

from edgecore.ir.operators import integer_operators  # noqa: F401  (registers the operators)

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
