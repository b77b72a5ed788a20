"""Lower layer norm, group norm and RMS norm to TOSA, quantized or in floating point."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from edgecore.sdk import NodeQuery
from edgecore.sdk.torch_compat import schema_of
from edgecore_tosa.builder.builder import NHWC, Builder, Value
from edgecore_tosa.builder.lookup import ENTRIES, lookup
from edgecore_tosa.builder.mantissa import shift_right
from edgecore_tosa.builder.operator_table import FLOAT, Lower, Query, Row
from edgecore_tosa.graph import Array, Tensor
from edgecore_tosa.quantization.scales import Quantization
from edgecore_tosa.schema import DType, Op

aten = torch.ops.aten

_MAX_BITS = 16
"""A norm has at most 2**16 elements, so that the sum of as many int16 numbers has 31 bits."""

_EXACT_BITS = 8
"""For norms of up to 2**8 int8 elements, sums and the product of two sums are exact in int32."""

_DEVIATION_BITS = 23
"""Magnitude bits of a difference from the mean."""

_ROOT_BITS = 21
"""Fractional bits of 1 / sqrt."""


@dataclass(frozen=True)
class Norm:
    """A norm of a tensor: (x - mean) / sqrt(mean of squared differences + eps).

    Attributes:
        axes: The dims of the tensor over which x is averaged.
        count: Number of elements per average.
        eps: Number that is added to the mean of the squares.
        is_centred: False for an RMS norm, which does not subtract the mean.
    """

    axes: tuple[int, ...]
    count: int
    eps: float
    is_centred: bool = True


def normalized(b: Builder, x: Tensor, q: Quantization, norm: Norm) -> tuple[Tensor, float]:
    """Return the norm of quantized x as int32 below 2**30, and its scale.

    A row is the set of elements that share a mean. k, D and h are integers per row.

    1. E = (x - mean) * 2**F has 24 bits; F is 15 for int8 and 7 for int16.
    2. Z = E << k: k gives the largest |E| of the row 23 bits, so that rows of small differences keep precision. If eps
       is much larger than the squares, k is smaller.
    3. D = sum(Z**2) + count * eps, shifted right to fit 30 bits, and by 2e more bits if eps needs it. The squares are
       rounded before the sum over each dim.
    4. D << 2h has 31 or 30 bits; a table maps this number to an entry proportional to its 1 / sqrt. The result is Z *
       (entry << h).

    The relative error is below 2**-14 from the table, plus at most count**2 / 2**30 from rounding squares (for a row
    with a single large element). With rows of 1,024 elements, an int8 result differs by at most 1 step.
    """
    fraction = _DEVIATION_BITS - (8 if q.dtype == DType.INT8 else 16)
    bits = sum(_bits(x.shape[axis]) for axis in norm.axes)
    whole = b.rescale(x, 2.0**fraction, DType.INT32, q.zero_point)
    extremes = [
        b.rescale(b.reduce(op, x, *norm.axes), 2.0**fraction, DType.INT32, q.zero_point)
        for op in (Op.REDUCE_MAX, Op.REDUCE_MIN)
    ]
    if norm.is_centred:
        total = b.reduce(Op.REDUCE_SUM, b.rescale(x, 1.0, DType.INT32, q.zero_point), *norm.axes)
        mean = b.rescale(total, 2.0**fraction / norm.count, DType.INT32)
        whole, *extremes = (b.compute(Op.SUB, x, mean) for x in (whole, *extremes))
    largest = b.compute(Op.MAXIMUM, extremes[0], b.compute(Op.SUB, b.number(0, DType.INT32, x.rank), extremes[1]))
    # count * eps in the unit of the sum of squares, if the differences are not shifted (k = 0).
    eps = norm.count * norm.eps / q.step**2 * 4.0**fraction / 2 ** (16 + bits)
    room = math.floor(math.log2(2**29 / max(eps, 2.0**-99)) / 2)  # maximum k; if negative, -e
    limit, excess = min(max(room, 0), 31), max(-room, 0)
    spare = b.compute(Op.SUB, b.compute(Op.CLZ, largest), 32 - _DEVIATION_BITS)
    left = b.compute(Op.MINIMUM, spare, limit)
    differences = _shift_left(b, whole, left)
    squares = _sum_of_squares(b, differences, norm.axes)
    if excess > 0:
        squares = shift_right(b, squares, min(2 * excess, 31))
    right = b.compute(Op.MUL, b.compute(Op.SUB, b.number(limit, DType.INT32, x.rank), left), 2)
    largest_addend = b.number(round(eps * 4.0 ** (limit - excess)), DType.INT32, x.rank)
    addend = shift_right(b, largest_addend, b.compute(Op.MINIMUM, right, 31))
    root = _shift_left(b, *_root_parts(b, b.compute(Op.MAXIMUM, b.compute(Op.ADD, squares, addend), 1)))
    shift = 15 + -(-bits // 2)
    tensor = b.compute(Op.MUL, differences, root, shift=shift)
    return tensor, math.sqrt(norm.count) * 2.0 ** (shift - _ROOT_BITS - 23.5 - bits / 2 - excess)


def _exact(b: Builder, x: Tensor, q: Quantization, norm: Norm) -> tuple[Tensor, float] | None:
    """Compute `normalized` for up to 256 int8 elements, exactly but for 1 / sqrt; return None if eps is too large.

    The zero point is not subtracted, because it cancels out in the differences.

    1. E = count * x - sum(x). V = (count * sum(x**2) - sum(x)**2) * 2**2f is the square of count * standard deviation *
       2**f; f is the largest number for which V has 30 bits.
    2. D = V + eps; D << 2h has 31 or 30 bits, as in `normalized`. The result is E * (entry * 2**(h - 8)), where the
       factor is rounded per row and has 14 to 29 bits.
    """
    bits = _bits(norm.count)
    f = _EXACT_BITS - bits
    if q.dtype != DType.INT8 or not norm.is_centred or f < 0:
        return None
    eps = round(norm.count**2 * norm.eps / q.step**2 * 4.0**f)
    if eps > 2**29:
        return None
    whole = b.rescale(x, 1.0, DType.INT32)
    total = b.reduce(Op.REDUCE_SUM, whole, *norm.axes)
    squares = b.reduce(Op.REDUCE_SUM, b.compute(Op.MUL, whole, whole), *norm.axes)
    minuend = b.compute(Op.ADD, b.compute(Op.MUL, squares, norm.count * 4**f), eps)
    variance = b.compute(Op.SUB, minuend, b.compute(Op.MUL, b.compute(Op.MUL, total, total), 4**f))
    entry, half = _root_parts(b, b.compute(Op.MAXIMUM, variance, 1))
    root = shift_right(b, b.compute(Op.MUL, entry, 2**7), b.compute(Op.SUB, b.number(15, DType.INT32, x.rank), half))
    differences = b.compute(Op.SUB, b.compute(Op.MUL, whole, norm.count), total)
    # With this shift, the integer of a normalized value, which is at most sqrt(count), stays below 2**30.
    shift = max(-(-3 * bits // 2) - 9, 0)
    tensor = b.compute(Op.MUL, differences, root, shift=shift)
    return tensor, 2.0 ** (shift + f - _ROOT_BITS + 8 - 15.5)


def _bits(count: int) -> int:
    """Return how many more bits a sum of `count` numbers may have than one number."""
    return (count - 1).bit_length()


def _shift_left(b: Builder, x: Tensor, bits: Tensor) -> Tensor:
    shape = tuple(np.broadcast_shapes(x.shape, bits.shape))
    return b.emit(Op.LOGICAL_LEFT_SHIFT, [x, bits], shape, DType.INT32)


def _sum_of_squares(b: Builder, x: Tensor, axes: Sequence[int]) -> Tensor:
    """Return sums of squares of 24-bit numbers, divided by 2**16 and each dim's size (rounded up to a power of 2)."""
    first, *rest = axes
    terms = b.reduce(Op.REDUCE_SUM, b.compute(Op.MUL, x, x, shift=16 + _bits(x.shape[first])), first)
    for axis in rest:
        terms = b.reduce(Op.REDUCE_SUM, shift_right(b, terms, _bits(x.shape[axis])), axis)
    return terms


def _root_parts(b: Builder, x: Tensor) -> tuple[Tensor, Tensor]:
    """For positive int32 x, return e and h such that sqrt(2**31 / x) * 2**21 = e * 2**h."""
    zeros = b.compute(Op.SUB, b.compute(Op.CLZ, x), 1)
    half = b.emit(Op.ARITHMETIC_RIGHT_SHIFT, [zeros, b.number(1, DType.INT32, x.rank)], x.shape, DType.INT32)
    mantissa = _shift_left(b, x, b.compute(Op.MUL, half, 2))  # in [2**29, 2**31)
    index = b.rescale(b.compute(Op.SUB, mantissa, 5 * 2**28), 2**16 / (3 * 2**29), DType.INT16)
    points = (0.25 + np.arange(ENTRIES) * (0.75 / (ENTRIES - 1))) ** -0.5 * 2 ** (_ROOT_BITS - 7)
    return lookup(b, index, np.rint(points)), half


def _real(b: Builder, x: Tensor, norm: Norm) -> Tensor:
    if norm.is_centred:
        x = b.compute(Op.SUB, x, b.compute(Op.MUL, b.reduce(Op.REDUCE_SUM, x, *norm.axes), 1 / norm.count))
    squares = b.reduce(Op.REDUCE_SUM, b.compute(Op.MUL, x, x), *norm.axes)
    variance = b.compute(Op.MUL, squares, 1 / norm.count)
    return b.compute(Op.MUL, x, b.compute(Op.RSQRT, b.compute(Op.ADD, variance, norm.eps)))


def _affine(
    b: Builder, x: Tensor, scale: float, weight: Array | None, bias: Array | None, bits: int
) -> tuple[Tensor, float]:
    """Return x * weight + bias and the result's scale; weight and bias broadcast to x, whose integers are below 2**30.

    Args:
        b: The builder.
        x: The normalized tensor.
        scale: The scale of x.
        weight: The factors; None for 1.
        bias: The addends; None for 0.
        bits: Bits of the constants, including the sign.
    """
    if weight is None and bias is None:
        return x, scale
    weight = np.ones([1] * x.rank) if weight is None else weight
    bias = np.zeros([1] * x.rank) if bias is None else bias
    if x.dtype != DType.INT32:
        product = b.compute(Op.MUL, x, b.constant(weight, x.dtype))
        return b.compute(Op.ADD, product, b.constant(bias, x.dtype)), scale
    largest = max(float(np.abs(weight).max()) * scale * 2**30 + float(np.abs(bias).max()), 2.0**-99)
    unit = largest / 2**30
    factors = weight * scale / unit
    shift = min(bits - 2 - math.frexp(float(np.abs(factors).max()))[1], 62)
    product = b.compute(Op.MUL, x, _constant(b, np.rint(factors * 2.0**shift), bits, 0), shift=shift)
    return b.compute(Op.ADD, product, _constant(b, np.rint(bias / unit / 2 ** (32 - bits)), bits, 32 - bits)), unit


def _constant(b: Builder, numbers: Array, bits: int, shift: int) -> Tensor:
    """Return integers times 2**shift as an int32 constant.

    With 16 `bits`, the constant is int16 and the device casts it: an NPU reads int16 constants from flash only once,
    but int32 constants once for each row.
    """
    if bits == 32:
        return b.constant(numbers, DType.INT32)
    wide = b.emit(Op.CAST, [b.constant(numbers, DType.INT16)], numbers.shape, DType.INT32)
    return b.compute(Op.MUL, wide, 2**shift) if shift else wide


def _write(
    b: Builder, x: Tensor, q: Quantization | None, norm: Norm, weight: Array | None, bias: Array | None
) -> Value:
    if q is None:
        tensor, scale = _real(b, x, norm), 1.0
    else:
        tensor, scale = _exact(b, x, q, norm) or normalized(b, x, q, norm)
    bits = 16 if q is not None and q.dtype == DType.INT8 else 32
    tensor, scale = _affine(b, tensor, scale, weight, bias, bits)
    return b.finish(tensor, scale, range(x.rank))


def _of_rows(is_centred: bool) -> Lower:
    """Return the function that lowers a norm over the last dims; its result keeps the dim order of the input."""

    def lower(b: Builder) -> Value:
        x = b.input("input")
        shape = b.argument("normalized_shape")
        rank = len(x.order)
        dims = range(rank - len(shape), rank)
        eps = b.argument("eps")
        eps = torch.finfo(torch.float32).eps if eps is None else eps
        norm = Norm(tuple(x.axis(dim) for dim in dims), math.prod(shape), eps, is_centred)
        weight = _operand(b, x, "weight")
        bias = _operand(b, x, "bias") if is_centred else None
        result = _write(b, x.tensor, x.quantization, norm, weight, bias)
        return replace(result, order=x.order)

    return lower


def _operand(b: Builder, x: Value, name: str) -> Array | None:
    """Return a constant argument, transposed so that it broadcasts to the tensor of `x`; None if the node omits it."""
    constant = b.real_constant(b.argument(name))
    return None if constant is None else x.in_order(constant)


def _first_result(lower: Lower) -> Lower:
    def write(b: Builder) -> list[Value]:
        value = lower(b)
        assert isinstance(value, Value)
        return [value]

    return write


def _of_groups(channels: str) -> Lower:
    """Return the function that lowers a norm over groups of channels and all positions of an image."""

    def lower(b: Builder) -> Value:
        x = b.input("input")
        groups = b.argument(channels)
        n, count = x.shape[:2]
        order = NHWC if len(x.order) == 4 else (0, *range(2, len(x.order)), 1)
        image = b.read(x, order)
        positions = math.prod(x.shape[2:])
        parts = b.reshape(image, (n, positions, groups, count // groups))
        norm = Norm((3, 1), positions * count // groups, b.argument("eps"))
        affine = [b.real_constant(b.argument(name)) for name in _AFFINE]
        weight, bias = (None if array is None else array.reshape(1, 1, groups, -1) for array in affine)
        result = _write(b, parts, x.quantization, norm, weight, bias)
        return Value(b.reshape(result.tensor, image.shape), order, result.quantization)

    return lower


def _bits_of_sum(query: Query) -> int:
    """Return how many more bits a sum over all elements that a norm averages may have than one element."""
    names = schema_of(query.node.target).arguments
    if any(argument.name == "normalized_shape" for argument in names):
        return sum(map(_bits, query.argument("normalized_shape")))
    sizes, groups = query.sizes("input"), query.argument(_GROUPS[query.node.target])
    return _bits(sizes[1] // groups) + _bits(math.prod(sizes[2:]))


def _check(query: NodeQuery) -> str | None:
    assert isinstance(query, Query)
    names = {argument.name for argument in schema_of(query.node.target).arguments}
    for name in sorted({"weight", "bias"} & names):
        node = query.argument(name)
        if node is not None and not query.is_constant(node):
            return f"its {name} is not a constant"
    if isinstance(query.node.meta["val"], (tuple, list)) and [user.args[1] for user in query.node.users] != [0]:
        return "its mean or standard deviation is read"
    if _bits_of_sum(query) > _MAX_BITS:
        return f"a norm over more than {2**_MAX_BITS} elements"
    return None


_GROUPS: dict[Any, str] = {aten.group_norm.default: "num_groups", aten.native_group_norm.default: "group"}
_AFFINE = ("weight", "bias")
_CONSTRAINTS = f"constant weight and bias, over at most {2**_MAX_BITS} elements"

ROWS = (
    Row(aten.layer_norm.default, FLOAT, _CONSTRAINTS, _check, True, _of_rows(True), real=_AFFINE),
    Row(
        aten.native_layer_norm.default, FLOAT, _CONSTRAINTS, _check, False, _first_result(_of_rows(True)), real=_AFFINE
    ),
    Row(aten.rms_norm.default, FLOAT, _CONSTRAINTS, _check, True, _of_rows(False), real=_AFFINE[:1]),
    Row(aten.group_norm.default, FLOAT, _CONSTRAINTS, _check, True, _of_groups("num_groups"), real=_AFFINE),
    Row(
        aten.native_group_norm.default,
        FLOAT,
        _CONSTRAINTS,
        _check,
        False,
        _first_result(_of_groups("group")),
        real=_AFFINE,
    ),
)
