"""Operators on int8 values that compute with integers only, and their reference arithmetic.

The kernels of `runtime_cpp/kernels/ops/int*.cpp` compute the same bits as the functions here. A value x stands for
(x - zero point) * scale. `range` in the comments means the last three arguments of most operators: the zero point of
the result and its limits, -128 and 127 or those of a fused activation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

# The operators stay registered as long as this library object exists.
_library: Any = torch.library.Library("edgecore", "FRAGMENT")  # type: ignore[no-untyped-call]
_LAYER = "Tensor input, Tensor weight, Tensor channels"
_RANGE = "int zero_point, int low, int high"
_library.define(
    f"int8_convolution({_LAYER}, int[] stride, int[] padding, int[] dilation, int[] upsampling, int[] output_padding, "
    f"int groups, int input_zero_point, {_RANGE}) -> Tensor"
)
_library.define(f"int8_linear({_LAYER}, {_RANGE}) -> Tensor")
_library.define("int8_table(Tensor input, Tensor table) -> Tensor")
_PAIR = "Tensor a, Tensor b, int a_zero_point, int b_zero_point"
_library.define(f"int8_add({_PAIR}, int a_factor, int b_factor, int shift, {_RANGE}) -> Tensor")
_library.define(f"int8_mul({_PAIR}, int multiplier, int shift, {_RANGE}) -> Tensor")
_library.define(
    f"int8_mean(Tensor input, int dims, bool keepdim, int input_zero_point, int multiplier, int shift, {_RANGE}) -> Tensor"
)
_library.define(f"int8_matmul({_PAIR}, int multiplier, int shift, {_RANGE}) -> Tensor")
_library.define(
    f"int8_average(Tensor input, Tensor rows, Tensor columns, Tensor factors, int input_zero_point, {_RANGE}) -> Tensor"
)
_library.define(f"int8_softmax(Tensor input, Tensor table, {_RANGE}) -> Tensor")

SOFTMAX_BITS = 16
"""Entry 0 of the table of `int8_softmax` is 2^16, and a row has less than 2^15 elements, so that 32 bits hold its sum."""

ADD_BITS = 21
"""The factors of `int8_add` are at most 2^21 in magnitude, so that 32 bits hold its sums."""


def fixed_point(factor: float) -> tuple[int, int] | None:
    """Return (multiplier, shift) of a positive real factor, which is multiplier * 2^(shift - 31).

    The multiplier is in [2^30, 2^31), the shift in [-31, 30]. Returns None for a factor of 2^30 and more; a factor that
    is too small becomes the smallest one.
    """
    mantissa, shift = math.frexp(factor)
    multiplier = round(mantissa * 2**31)
    if multiplier == 2**31:
        multiplier, shift = 2**30, shift + 1
    if shift < -31:
        return 2**30, -31
    return (multiplier, shift) if shift <= 30 else None


def requantize(value: torch.Tensor, multiplier: Any, shift: Any) -> torch.Tensor:
    """Multiply int64 values, which 32 bits can hold, by factors: first to 32 bits, then to integers, rounded half up.

    Args:
        value: The values.
        multiplier: The multipliers in [2^30, 2^31): a number, or an int64 tensor that broadcasts.
        shift: The shifts in [-31, 30], likewise.
    """
    shift = torch.as_tensor(shift, dtype=torch.int64)
    left, right = shift.clamp(min=0), (-shift).clamp(min=0)
    shifted = (value << left).clamp(-(2**31), 2**31 - 1)
    product = (shifted * multiplier + 2**30) >> 31
    result: torch.Tensor = (product + ((torch.ones_like(right) << right) >> 1)) >> right
    return result


def _in_range(value: torch.Tensor, zero_point: int, low: int, high: int) -> torch.Tensor:
    return (value + zero_point).clamp(low, high).to(torch.int8)


def spread_out(
    input: torch.Tensor, upsampling: Sequence[int], padding: Sequence[int], output_padding: Sequence[int], filling: int
) -> torch.Tensor:
    """Return `input` [N, C, (H,) W] as float64, with `filling` between its elements and around them."""
    sizes = [(size - 1) * step + 1 for size, step in zip(input.shape[2:], upsampling, strict=True)]
    spread = torch.full((*input.shape[:2], *sizes), filling, dtype=torch.float64, device=input.device)
    steps: list[Any] = [slice(None, None, step) for step in upsampling]
    spread[(..., *steps)] = input.double()
    pads = [
        amount for before, extra in zip(padding, output_padding, strict=True) for amount in (before + extra, before)
    ]
    return functional.pad(spread, pads[::-1], value=filling)


@torch.library.impl(_library, "int8_convolution", "CompositeExplicitAutograd")
def _int8_convolution(
    input: torch.Tensor,
    weight: torch.Tensor,
    channels: torch.Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    upsampling: Sequence[int],
    output_padding: Sequence[int],
    groups: int,
    input_zero_point: int,
    zero_point: int,
    low: int,
    high: int,
) -> torch.Tensor:
    """Convolve `input` [N, C, (H,) W], after zeros were put between its elements, with `weight` [outputs, C / groups, ...].

    `channels` is int32 [3, outputs]: bias, multiplier and shift of each output channel. The bias contains what the
    input's zero point adds.
    """
    padded = spread_out(input, upsampling, padding, output_padding, input_zero_point)
    convolve = functional.conv1d if len(stride) == 1 else functional.conv2d
    # float64 represents sums of integers below 2^53 exactly.
    sums = convolve(padded, weight.double(), None, list(stride), 0, list(dilation), groups).round().to(torch.int64)
    bias, multiplier, shift = channels.to(torch.int64).reshape(3, -1, *[1] * len(stride))
    return _in_range(requantize(sums + bias, multiplier, shift), zero_point, low, high)


@torch.library.impl(_library, "int8_linear", "CompositeExplicitAutograd")
def _int8_linear(
    input: torch.Tensor,
    weight: torch.Tensor,
    channels: torch.Tensor,
    zero_point: int,
    low: int,
    high: int,
) -> torch.Tensor:
    """Multiply `input` [..., inputs] by the transpose of `weight` [outputs, inputs].

    `channels` is int32 [3, outputs], as for a convolution.
    """
    bias, multiplier, shift = channels.to(torch.int64)
    sums = functional.linear(input.double(), weight.double()).round().to(torch.int64) + bias
    return _in_range(requantize(sums, multiplier, shift), zero_point, low, high)


@torch.library.impl(_library, "int8_table", "CompositeExplicitAutograd")
def _int8_table(input: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Return table[input + 128] for int8 values and an int8 table [256]."""
    return table[input.to(torch.int64) + 128]


@torch.library.impl(_library, "int8_add", "CompositeExplicitAutograd")
def _int8_add(
    a: torch.Tensor,
    b: torch.Tensor,
    a_zero_point: int,
    b_zero_point: int,
    a_factor: int,
    b_factor: int,
    shift: int,
    zero_point: int,
    low: int,
    high: int,
) -> torch.Tensor:
    """Return (a * a_factor + b * b_factor) / 2^shift, where a and b are differences from their zero points."""
    first, second = a.to(torch.int64) - a_zero_point, b.to(torch.int64) - b_zero_point
    total = first * a_factor + second * b_factor
    return _in_range((total + (1 << (shift - 1))) >> shift, zero_point, low, high)


@torch.library.impl(_library, "int8_mul", "CompositeExplicitAutograd")
def _int8_mul(
    a: torch.Tensor,
    b: torch.Tensor,
    a_zero_point: int,
    b_zero_point: int,
    multiplier: int,
    shift: int,
    zero_point: int,
    low: int,
    high: int,
) -> torch.Tensor:
    """Return the product of a and b, times a factor."""
    product = (a.to(torch.int64) - a_zero_point) * (b.to(torch.int64) - b_zero_point)
    return _in_range(requantize(product, multiplier, shift), zero_point, low, high)


@torch.library.impl(_library, "int8_mean", "CompositeExplicitAutograd")
def _int8_mean(
    input: torch.Tensor,
    dims: int,
    keepdim: bool,
    input_zero_point: int,
    multiplier: int,
    shift: int,
    zero_point: int,
    low: int,
    high: int,
) -> torch.Tensor:
    """Return the sum over the last `dims` dims, times a factor, which contains the number of elements for a mean."""
    sums = (input.to(torch.int64) - input_zero_point).sum(list(range(-dims, 0)), keepdim=keepdim)
    return _in_range(requantize(sums, multiplier, shift), zero_point, low, high)


@torch.library.impl(_library, "int8_matmul", "CompositeExplicitAutograd")
def _int8_matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    a_zero_point: int,
    b_zero_point: int,
    multiplier: int,
    shift: int,
    zero_point: int,
    low: int,
    high: int,
) -> torch.Tensor:
    """Return the product of the matrices a [..., m, k] and b [..., k, n], times a factor; their batch dims are equal."""
    sums = (a.double() - a_zero_point) @ (b.double() - b_zero_point)
    return _in_range(requantize(sums.round().to(torch.int64), multiplier, shift), zero_point, low, high)


def in_windows(windows: torch.Tensor, size: int) -> torch.Tensor:
    """Return 1 for each element [size] that is in a window [count], else 0, as float64 [count, size]."""
    begins, ends, _ = windows[:, :, None]
    index = torch.arange(size, device=windows.device)
    inside: torch.Tensor = (begins <= index) & (index < ends)
    return inside.double()


@torch.library.impl(_library, "int8_average", "CompositeExplicitAutograd")
def _int8_average(
    input: torch.Tensor,
    rows: torch.Tensor,
    columns: torch.Tensor,
    factors: torch.Tensor,
    input_zero_point: int,
    zero_point: int,
    low: int,
    high: int,
) -> torch.Tensor:
    """Return sums of windows of `input` [N, C, H, W], each times the factor for its divisor.

    `rows` and `columns` are int32 [3, count]: where each window begins and ends in H and in W, and a divisor. The
    divisor of an output is the product of both, and `factors`, int32 [2, divisors], has its multiplier and its shift.
    """
    height, width = input.shape[2:]
    sums = in_windows(rows, height) @ (input.double() - input_zero_point) @ in_windows(columns, width).T
    divisors = rows[2].to(torch.int64)[:, None] * columns[2].to(torch.int64)
    multiplier, shift = factors.to(torch.int64)[:, divisors - 1]
    return _in_range(requantize(sums.round().to(torch.int64), multiplier, shift), zero_point, low, high)


@torch.library.impl(_library, "int8_softmax", "CompositeExplicitAutograd")
def _int8_softmax(input: torch.Tensor, table: torch.Tensor, zero_point: int, low: int, high: int) -> torch.Tensor:
    """Return 256 * table[d] / sum, where d is the largest element of a row (the last dim) less an element.

    `table` is int32 [256], and `sum` that of the table's entries for the row. The result has the scale 1 / 256.
    """
    values = input.to(torch.int64)
    terms = table.to(torch.int64)[values.amax(-1, keepdim=True) - values]
    sums = terms.sum(-1, keepdim=True)
    bits = torch.frexp(sums.double())[1].to(torch.int64)
    multiplier = ((torch.ones_like(bits) << (bits + 30)) // sums).clamp(max=2**31 - 1)
    return _in_range(requantize(terms, multiplier, 9 - bits), zero_point, low, high)
