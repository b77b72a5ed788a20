"""Operators on int16 values that compute with integers only, and their reference arithmetic.

The kernels of `runtime_cpp/kernels/ops/int*.cpp` compute the same bits as the functions here. A value x stands for
x * scale: the zero point is always 0. Weights of layers are int8. Sums have 64 bits. The last two arguments of most
operators are the limits of the result, -32768 and 32767 or those of a fused activation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from edgecore.ir.int8_operators import in_windows, spread_out

# The operators stay registered as long as this library object exists.
_library: Any = torch.library.Library("edgecore", "FRAGMENT")  # type: ignore[no-untyped-call]
_LAYER = "Tensor input, Tensor weight, Tensor channels"
_FACTOR = "int multiplier, int shift"
_LIMITS = "int low, int high"
_library.define(
    f"int16_convolution({_LAYER}, int[] stride, int[] padding, int[] dilation, int[] upsampling, "
    f"int[] output_padding, int groups, {_LIMITS}) -> Tensor"
)
_library.define(f"int16_linear({_LAYER}, {_LIMITS}) -> Tensor")
_library.define(f"int16_table(Tensor input, Tensor table, {_LIMITS}) -> Tensor")
_library.define(f"int16_rescale(Tensor input, {_FACTOR}, {_LIMITS}) -> Tensor")
_library.define(f"int16_add(Tensor a, Tensor b, int a_factor, int b_factor, int shift, {_LIMITS}) -> Tensor")
_library.define(f"int16_mul(Tensor a, Tensor b, {_FACTOR}, {_LIMITS}) -> Tensor")
_library.define(f"int16_mean(Tensor input, int dims, bool keepdim, {_FACTOR}, {_LIMITS}) -> Tensor")
_library.define(f"int16_matmul(Tensor a, Tensor b, {_FACTOR}, {_LIMITS}) -> Tensor")
_library.define(f"int16_average(Tensor input, Tensor rows, Tensor columns, Tensor factors, {_LIMITS}) -> Tensor")
_library.define(f"int16_softmax(Tensor input, Tensor table, {_LIMITS}) -> Tensor")

TABLE_LIMIT = 2**22
"""The largest magnitude of entries of the table of `int16_table`, so that 32 bits hold an interpolated value."""

SOFTMAX_BITS = 30
"""The largest entries of the table of `int16_softmax` are 2^30."""

ADD_BITS = 30
"""The factors of `int16_add` are at most 2^30 in magnitude."""


def fixed_point(factor: float) -> tuple[int, int] | None:
    """Return (multiplier, shift) of a positive real factor, which is multiplier / 2^shift.

    The multiplier is in [2^15, 2^16), the shift in [1, 62]. Returns None for a factor of 2^15 and more; a factor that
    is too small becomes the smallest one.
    """
    mantissa, exponent = math.frexp(factor)
    multiplier = round(mantissa * 2**16)
    if multiplier == 2**16:
        multiplier, exponent = 2**15, exponent + 1
    shift = 16 - exponent
    if shift > 62:
        return 2**15, 62
    return (multiplier, shift) if shift >= 1 else None


def requantize(value: torch.Tensor, multiplier: Any, shift: Any) -> torch.Tensor:
    """Multiply int64 values, less than 2^46 in magnitude, by factors, and round half up to integers.

    Args:
        value: The values.
        multiplier: The multipliers in [2^15, 2^16): a number, or an int64 tensor that broadcasts.
        shift: The shifts in [1, 62], likewise.
    """
    shift = torch.as_tensor(shift, dtype=torch.int64)
    result: torch.Tensor = (value * multiplier + (torch.ones_like(shift) << (shift - 1))) >> shift
    return result


def _limited(value: torch.Tensor, low: int, high: int) -> torch.Tensor:
    return value.clamp(low, high).to(torch.int16)


@torch.library.impl(_library, "int16_convolution", "CompositeExplicitAutograd")
def _int16_convolution(
    input: torch.Tensor,
    weight: torch.Tensor,
    channels: torch.Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    upsampling: Sequence[int],
    output_padding: Sequence[int],
    groups: int,
    low: int,
    high: int,
) -> torch.Tensor:
    """Convolve `input` [N, C, (H,) W], after zeros were put between its elements, with `weight` [outputs, C / groups, ...].

    `channels` is int64 [3, outputs]: bias, multiplier and shift of each output channel.
    """
    padded = spread_out(input, upsampling, padding, output_padding, 0)
    convolve = functional.conv1d if len(stride) == 1 else functional.conv2d
    # float64 represents sums of integers below 2^53 exactly.
    sums = convolve(padded, weight.double(), None, list(stride), 0, list(dilation), groups).round().to(torch.int64)
    bias, multiplier, shift = channels.reshape(3, -1, *[1] * len(stride))
    return _limited(requantize(sums + bias, multiplier, shift), low, high)


@torch.library.impl(_library, "int16_linear", "CompositeExplicitAutograd")
def _int16_linear(
    input: torch.Tensor, weight: torch.Tensor, channels: torch.Tensor, low: int, high: int
) -> torch.Tensor:
    """Multiply `input` [..., inputs] by the transpose of `weight` [outputs, inputs].

    `channels` is int64 [3, outputs], as for a convolution.
    """
    bias, multiplier, shift = channels
    sums = functional.linear(input.double(), weight.double()).round().to(torch.int64) + bias
    return _limited(requantize(sums, multiplier, shift), low, high)


@torch.library.impl(_library, "int16_table", "CompositeExplicitAutograd")
def _int16_table(input: torch.Tensor, table: torch.Tensor, low: int, high: int) -> torch.Tensor:
    """Interpolate between the entries of `table`, int32 [2^bits + 1], for inputs that are 2^(16 - bits) apart.

    `bits` is from 9 to 16. The first entry is for -2^15, the last one for 2^15. The entries are at most
    `TABLE_LIMIT` in magnitude: they may be beyond the limits of the result, so that a function which leaves the limits
    has no bend there.
    """
    shift = 17 - table.shape[0].bit_length()
    value = input.to(torch.int64) + 2**15
    index = value >> shift
    entries = table.to(torch.int64)
    first, second = entries[index], entries[index + 1]
    rest = value - (index << shift)
    return _limited(first + (((second - first) * rest + (1 << shift >> 1)) >> shift), low, high)


@torch.library.impl(_library, "int16_rescale", "CompositeExplicitAutograd")
def _int16_rescale(input: torch.Tensor, multiplier: int, shift: int, low: int, high: int) -> torch.Tensor:
    """Return the input times a factor."""
    return _limited(requantize(input.to(torch.int64), multiplier, shift), low, high)


@torch.library.impl(_library, "int16_add", "CompositeExplicitAutograd")
def _int16_add(
    a: torch.Tensor, b: torch.Tensor, a_factor: int, b_factor: int, shift: int, low: int, high: int
) -> torch.Tensor:
    """Return (a * a_factor + b * b_factor) / 2^shift; the shift is in [1, 62]."""
    total = a.to(torch.int64) * a_factor + b.to(torch.int64) * b_factor
    return _limited((total + (1 << (shift - 1))) >> shift, low, high)


@torch.library.impl(_library, "int16_mul", "CompositeExplicitAutograd")
def _int16_mul(a: torch.Tensor, b: torch.Tensor, multiplier: int, shift: int, low: int, high: int) -> torch.Tensor:
    """Return the product of a and b, times a factor."""
    return _limited(requantize(a.to(torch.int64) * b.to(torch.int64), multiplier, shift), low, high)


@torch.library.impl(_library, "int16_mean", "CompositeExplicitAutograd")
def _int16_mean(
    input: torch.Tensor, dims: int, keepdim: bool, multiplier: int, shift: int, low: int, high: int
) -> torch.Tensor:
    """Return the sum over the last `dims` dims, times a factor, which contains the number of elements for a mean."""
    sums = input.to(torch.int64).sum(list(range(-dims, 0)), keepdim=keepdim)
    return _limited(requantize(sums, multiplier, shift), low, high)


@torch.library.impl(_library, "int16_matmul", "CompositeExplicitAutograd")
def _int16_matmul(a: torch.Tensor, b: torch.Tensor, multiplier: int, shift: int, low: int, high: int) -> torch.Tensor:
    """Return the product of the matrices a [..., m, k] and b [..., k, n], times a factor; their batch dims are equal."""
    sums = (a.double() @ b.double()).round().to(torch.int64)
    return _limited(requantize(sums, multiplier, shift), low, high)


@torch.library.impl(_library, "int16_average", "CompositeExplicitAutograd")
def _int16_average(
    input: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor, factors: torch.Tensor, low: int, high: int
) -> torch.Tensor:
    """Return sums of windows of `input` [N, C, H, W], each times the factor for its divisor, as `int8_average` does."""
    height, width = input.shape[2:]
    sums = in_windows(rows, height) @ input.double() @ in_windows(columns, width).T
    divisors = rows[2].to(torch.int64)[:, None] * columns[2].to(torch.int64)
    multiplier, shift = factors.to(torch.int64)[:, divisors - 1]
    return _limited(requantize(sums.round().to(torch.int64), multiplier, shift), low, high)


@torch.library.impl(_library, "int16_softmax", "CompositeExplicitAutograd")
def _int16_softmax(input: torch.Tensor, table: torch.Tensor, low: int, high: int) -> torch.Tensor:
    """Return 2^15 * term / sum, where `sum` is that of the terms of a row (the last dim), of at most 2^15 - 1 elements.

    `table` is int32 [512], with entries of at most 2^30. The term of an element is table[d / 256] * table[256 + d % 256]
    / 2^30, rounded half up, where d is the largest element of the row less the element: exp(-(256 i + j)) = exp(-256 i)
    * exp(-j). The result has the scale 2^-15.
    """
    value = input.to(torch.int64)
    steps = value.amax(-1, keepdim=True) - value
    entries = table.to(torch.int64)
    terms = (entries[steps >> 8] * entries[256 + (steps & 255)] + 2**29) >> SOFTMAX_BITS
    sums = terms.sum(-1, keepdim=True)  # from 2^30 to 2^45
    bits = torch.frexp(sums.double())[1].to(torch.int64)
    one = torch.ones_like(bits)
    reciprocal = (one << 61) // (sums >> (bits - 31))  # from 2^30 to 2^31
    return _limited((terms * reciprocal + (one << (bits + 14))) >> (bits + 15), low, high)
