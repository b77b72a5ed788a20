"""Operators on int8 and int16 values that compute with integers only, and their reference arithmetic.

The kernels of `runtime_cpp/kernels/ops/int*.cpp` return bit-identical results. An integer x represents the number
(x - zero point) * scale. The weights of layers are int8, also in layers with int16 values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

# Keep this library object: torch unregisters the operators when the object is destroyed.
_library: Any = torch.library.Library("edgecore", "FRAGMENT")  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class Arithmetic:
    """The arithmetic of the operators on values of one dtype.

    A real factor is represented in fixed point, by a multiplier in [2^(multiplier_bits - 1), 2^multiplier_bits) and a
    shift.

    Attributes:
        dtype: The dtype of the values.
        sum_dtype: The dtype of sums, and of the biases and factors of a layer's output channels.
        has_zero_points: True if operators take zero points; False if these are always 0.
        multiplier_bits: The number of bits of a multiplier.
        exponents: The smallest and largest e for factors in [2^(e - 1), 2^e).
        rounds_twice: True if a factor is multiplier * 2^(shift - 31), and products are rounded to 32 bits before the
            shift, as Arm's instructions do; False if it is multiplier / 2^shift, and products are rounded once.
        max_bias: Exclusive limit of the magnitude of a bias.
        add_bits: The factors of `add` are at most 2^add_bits in magnitude, so that `sum_dtype` can hold its sums.
        max_shift: The largest shift of `add`.
        softmax_bits: The largest entries of the table of `softmax` are 2^softmax_bits. A row has fewer than 2^15
            elements, so that `sum_dtype` can hold their sum.
    """

    dtype: torch.dtype
    sum_dtype: torch.dtype
    has_zero_points: bool
    multiplier_bits: int
    exponents: tuple[int, int]
    rounds_twice: bool
    max_bias: int
    add_bits: int
    max_shift: int
    softmax_bits: int

    @property
    def prefix(self) -> str:
        """The beginning of the operators' names, such as `int8`."""
        return str(self.dtype).removeprefix("torch.")

    def fixed_point(self, factor: float) -> tuple[int, int] | None:
        """Return (multiplier, shift) of a positive real factor; None if it is too large.

        A factor below the range is replaced by the smallest factor.
        """
        mantissa, exponent = math.frexp(factor)
        multiplier = round(mantissa * 2**self.multiplier_bits)
        if multiplier == 2**self.multiplier_bits:
            multiplier, exponent = multiplier // 2, exponent + 1
        min_exponent, max_exponent = self.exponents
        if exponent > max_exponent:
            return None
        if exponent < min_exponent:
            multiplier, exponent = 2 ** (self.multiplier_bits - 1), min_exponent
        return multiplier, exponent if self.rounds_twice else self.multiplier_bits - exponent

    def requantize(self, value: torch.Tensor, multiplier: Any, shift: Any) -> torch.Tensor:
        """Multiply integers by factors, and round the products half up to integers.

        Args:
            value: The integers, int64. In int8 operators they have 32 bits, in int16 operators they are below 2^46.
            multiplier: The multipliers: a number, or an int64 tensor that broadcasts.
            shift: The shifts: a number, or an int64 tensor that broadcasts.
        """
        shift = torch.as_tensor(shift, dtype=torch.int64)
        right = shift
        if self.rounds_twice:
            left, right = shift.clamp(min=0), (-shift).clamp(min=0)
            product = ((value << left).clamp(-(2**31), 2**31 - 1) * multiplier + 2**30) >> 31
        else:
            product = value * multiplier
        result: torch.Tensor = (product + ((torch.ones_like(right) << right) >> 1)) >> right
        return result


INT8 = Arithmetic(
    dtype=torch.int8,
    sum_dtype=torch.int32,
    has_zero_points=True,
    multiplier_bits=31,
    exponents=(-31, 30),
    rounds_twice=True,
    max_bias=2**30,
    add_bits=21,
    max_shift=31,
    softmax_bits=16,
)
INT16 = Arithmetic(
    dtype=torch.int16,
    sum_dtype=torch.int64,
    has_zero_points=False,
    multiplier_bits=16,
    exponents=(-46, 15),
    rounds_twice=False,
    max_bias=2**45,
    add_bits=30,
    max_shift=62,
    softmax_bits=30,
)

TABLE_LIMIT = 2**22
"""The largest magnitude of entries of the table of `int16_table`, so that 32 bits can hold an interpolated value."""


def _operator(
    name: str,
    arguments: str,
    operands: Sequence[str] = (),
    factors: str = "",
    arithmetics: Sequence[Arithmetic] = (INT8, INT16),
) -> Callable[[Callable[..., torch.Tensor]], Callable[..., torch.Tensor]]:
    """Register the decorated function as the operators `int8_NAME` and `int16_NAME`, or as only one of them.

    An operator has these arguments; on int16 values it has no zero points:

    - `arguments`, in the syntax of an operator schema;
    - a zero point for each of `operands`;
    - `factors`, in the same syntax: integers that represent the scale factors of the result;
    - the zero point of the result;
    - the smallest and largest result, from the dtype or a fused activation.

    The decorated function takes an `Arithmetic`, then the arguments of the first three items; for int16 values the zero
    points are 0. The function returns the int64 result before the zero point is added and the limits are applied.
    """
    count = arguments.count(",") + 1

    def register(compute: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        for arithmetic in arithmetics:
            before, after = [f"int {operand}_zero_point" for operand in operands], ["int zero_point"]
            if not arithmetic.has_zero_points:
                before, after = [], []
            parameters = [arguments, *before, *([factors] if factors else []), *after, "int low", "int high"]
            qualified = f"{arithmetic.prefix}_{name}"
            _library.define(f"{qualified}({', '.join(parameters)}) -> Tensor")
            _library.impl(qualified, _implementation(arithmetic, compute, count, len(operands)), _DISPATCH_KEY)
        return compute

    return register


_DISPATCH_KEY = "CompositeExplicitAutograd"


def _implementation(
    arithmetic: Arithmetic, compute: Callable[..., torch.Tensor], arguments: int, operands: int
) -> Callable[..., torch.Tensor]:
    def run(*values: Any) -> torch.Tensor:
        *rest, low, high = values
        if not arithmetic.has_zero_points:
            rest = [*rest[:arguments], *[0] * operands, *rest[arguments:], 0]
        *rest, zero_point = rest
        integers: torch.Tensor = compute(arithmetic, *rest) + zero_point
        return integers.clamp(low, high).to(arithmetic.dtype)

    return run


_LAYER = "Tensor input, Tensor weight, Tensor channels"
_FACTOR = "int multiplier, int shift"


@_operator(
    "convolution",
    f"{_LAYER}, int[] stride, int[] padding, int[] dilation, int[] upsampling, int[] output_padding, int groups",
    ["input"],
)
def _convolution(
    arithmetic: Arithmetic,
    input: torch.Tensor,
    weight: torch.Tensor,
    channels: torch.Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    upsampling: Sequence[int],
    output_padding: Sequence[int],
    groups: int,
    zero_point: int,
) -> torch.Tensor:
    """Convolve `input` [N, C, (H,) W], upsampled with zeros, with `weight` [outputs, C / groups, ...].

    `channels` is [3, outputs] of `sum_dtype`: bias, multiplier and shift of each output channel. The bias contains the
    contribution of the input's zero point.
    """
    padded = _spread_out(input, upsampling, padding, output_padding, zero_point)
    convolve = functional.conv1d if len(stride) == 1 else functional.conv2d
    # float64 represents integers below 2^53 exactly, so the sums of this float64 convolution are exact.
    sums = convolve(padded, weight.double(), None, list(stride), 0, list(dilation), groups).round().to(torch.int64)
    bias, multiplier, shift = channels.to(torch.int64).reshape(3, -1, *[1] * len(stride))
    return arithmetic.requantize(sums + bias, multiplier, shift)


def _spread_out(
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


@_operator("linear", _LAYER)
def _linear(arithmetic: Arithmetic, input: torch.Tensor, weight: torch.Tensor, channels: torch.Tensor) -> torch.Tensor:
    """Multiply `input` [..., inputs] by the transpose of `weight` [outputs, inputs].

    `channels` is [3, outputs]: bias, multiplier and shift of each output.
    """
    bias, multiplier, shift = channels.to(torch.int64)
    sums = functional.linear(input.double(), weight.double()).round().to(torch.int64) + bias
    return arithmetic.requantize(sums, multiplier, shift)


_library.define("int8_table(Tensor input, Tensor table) -> Tensor")


@torch.library.impl(_library, "int8_table", _DISPATCH_KEY)
def _int8_table(input: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Return table[input + 128] for int8 values and an int8 table [256]."""
    return table[input.to(torch.int64) + 128]


@_operator("table", "Tensor input, Tensor table", arithmetics=[INT16])
def _int16_table(arithmetic: Arithmetic, input: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Interpolate between the entries of `table`, int32 [2^bits + 1], for inputs that are 2^(16 - bits) apart.

    `bits` is from 9 to 16. The first entry is for -2^15, the last for 2^15. The entries are at most `TABLE_LIMIT` in
    magnitude. They may exceed the limits of the result, which is clamped: if entries were clamped instead, the
    interpolated function would bend before it reaches the limit.
    """
    shift = 17 - table.shape[0].bit_length()
    value = input.to(torch.int64) + 2**15
    index = value >> shift
    entries = table.to(torch.int64)
    first, second = entries[index], entries[index + 1]
    rest = value - (index << shift)
    return first + (((second - first) * rest + (1 << shift >> 1)) >> shift)


@_operator("rescale", "Tensor input", factors=_FACTOR, arithmetics=[INT16])
def _rescale(arithmetic: Arithmetic, input: torch.Tensor, multiplier: int, shift: int) -> torch.Tensor:
    """Return the input times a factor."""
    return arithmetic.requantize(input.to(torch.int64), multiplier, shift)


@_operator("add", "Tensor a, Tensor b", ["a", "b"], "int a_factor, int b_factor, int shift")
def _add(
    arithmetic: Arithmetic,
    a: torch.Tensor,
    b: torch.Tensor,
    a_zero_point: int,
    b_zero_point: int,
    a_factor: int,
    b_factor: int,
    shift: int,
) -> torch.Tensor:
    """Return (a * a_factor + b * b_factor) / 2^shift, where a and b are differences from their zero points."""
    first, second = a.to(torch.int64) - a_zero_point, b.to(torch.int64) - b_zero_point
    return (first * a_factor + second * b_factor + (1 << (shift - 1))) >> shift


@_operator("mul", "Tensor a, Tensor b", ["a", "b"], _FACTOR)
def _mul(
    arithmetic: Arithmetic,
    a: torch.Tensor,
    b: torch.Tensor,
    a_zero_point: int,
    b_zero_point: int,
    multiplier: int,
    shift: int,
) -> torch.Tensor:
    """Return the product of a and b, times a factor."""
    product = (a.to(torch.int64) - a_zero_point) * (b.to(torch.int64) - b_zero_point)
    return arithmetic.requantize(product, multiplier, shift)


@_operator("mean", "Tensor input, int dims, bool keepdim", ["input"], _FACTOR)
def _mean(
    arithmetic: Arithmetic,
    input: torch.Tensor,
    dims: int,
    keepdim: bool,
    zero_point: int,
    multiplier: int,
    shift: int,
) -> torch.Tensor:
    """Return the sum over the last `dims` dims times a factor, which includes 1 / (number of elements) for a mean."""
    sums = (input.to(torch.int64) - zero_point).sum(list(range(-dims, 0)), keepdim=keepdim)
    return arithmetic.requantize(sums, multiplier, shift)


@_operator("matmul", "Tensor a, Tensor b", ["a", "b"], _FACTOR)
def _matmul(
    arithmetic: Arithmetic,
    a: torch.Tensor,
    b: torch.Tensor,
    a_zero_point: int,
    b_zero_point: int,
    multiplier: int,
    shift: int,
) -> torch.Tensor:
    """Return a factor times the product of the matrices a [..., m, k] and b [..., k, n] with equal batch dims."""
    sums = (a.double() - a_zero_point) @ (b.double() - b_zero_point)
    return arithmetic.requantize(sums.round().to(torch.int64), multiplier, shift)


@_operator("average", "Tensor input, Tensor rows, Tensor columns, Tensor factors", ["input"])
def _average(
    arithmetic: Arithmetic,
    input: torch.Tensor,
    rows: torch.Tensor,
    columns: torch.Tensor,
    factors: torch.Tensor,
    zero_point: int,
) -> torch.Tensor:
    """Sum each window of `input` [N, C, H, W], and multiply the sum by the factor for the window's divisor.

    `rows` and `columns` are int32 [3, count]: begin, end and divisor of each window in H and in W. The divisor of an
    output is the product of its divisors in H and in W; `factors`, int32 [2, divisors], has the multiplier and shift
    for each product.
    """
    height, width = input.shape[2:]
    sums = _in_windows(rows, height) @ (input.double() - zero_point) @ _in_windows(columns, width).T
    divisors = rows[2].to(torch.int64)[:, None] * columns[2].to(torch.int64)
    multiplier, shift = factors.to(torch.int64)[:, divisors - 1]
    return arithmetic.requantize(sums.round().to(torch.int64), multiplier, shift)


def _in_windows(windows: torch.Tensor, size: int) -> torch.Tensor:
    """Return float64 [count, size]: 1 for each element that is in a window, else 0."""
    begins, ends, _ = windows[:, :, None]
    index = torch.arange(size, device=windows.device)
    inside: torch.Tensor = (begins <= index) & (index < ends)
    return inside.double()


@_operator("softmax", "Tensor input, Tensor table", arithmetics=[INT8])
def _int8_softmax(arithmetic: Arithmetic, input: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Return 256 * table[d] / sum, where d is the largest element of a row (the last dim) minus the element.

    `table` is int32 [256]; `sum` adds the table's entries for the row. The result has the scale 1 / 256.
    """
    values = input.to(torch.int64)
    terms = table.to(torch.int64)[values.amax(-1, keepdim=True) - values]
    sums = terms.sum(-1, keepdim=True)
    bits = torch.frexp(sums.double())[1].to(torch.int64)
    multiplier = ((torch.ones_like(bits) << (bits + 30)) // sums).clamp(max=2**31 - 1)
    return arithmetic.requantize(terms, multiplier, 9 - bits)


@_operator("softmax", "Tensor input, Tensor table", arithmetics=[INT16])
def _int16_softmax(arithmetic: Arithmetic, input: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Return 2^15 * term / sum, where `sum` adds the terms of a row (the last dim), of at most 2^15 - 1 elements.

    `table` is int32 [512], with entries of at most 2^30. The term of an element is table[d / 256] * table[256 + d %
    256] / 2^30, rounded half up, where d is the largest element of the row minus the element. It splits the
    exponential: exp(-(256 i + j)) = exp(-256 i) * exp(-j). The result has the scale 2^-15.
    """
    value = input.to(torch.int64)
    steps = value.amax(-1, keepdim=True) - value
    entries = table.to(torch.int64)
    terms = (entries[steps >> 8] * entries[256 + (steps & 255)] + 2**29) >> arithmetic.softmax_bits
    sums = terms.sum(-1, keepdim=True)  # from 2^30 to 2^45
    bits = torch.frexp(sums.double())[1].to(torch.int64)
    unit = torch.ones_like(bits)
    reciprocal = (unit << 61) // (sums >> (bits - 31))  # from 2^30 to 2^31
    return (terms * reciprocal + (unit << (bits + 14))) >> (bits + 15)
