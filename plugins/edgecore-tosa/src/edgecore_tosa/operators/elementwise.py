"""Elementwise operators, and clamps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from edgecore.sdk import NodeQuery
from edgecore_tosa.builder.builder import Builder, Value
from edgecore_tosa.builder.operator_table import FLOAT, Query, Row
from edgecore_tosa.graph import NUMPY, Tensor, encode
from edgecore_tosa.quantization.scales import Quantization
from edgecore_tosa.schema import Clamp, DType, NanMode, Op

aten = torch.ops.aten

_HEADROOM = 20
"""Bits by which the terms of a sum are shifted left, so that rounding rescaled terms loses much less than a step."""


def aligned(b: Builder, values: Sequence[Value]) -> tuple[list[Tensor], tuple[int, ...]]:
    """Give values equal rank and dim order, by leading dims of size 1 and transposes; return tensors and dim order.

    The first value of maximum rank that is not constant determines the order.
    """
    rank = max(len(value.order) for value in values)
    leading = [value for value in values if len(value.order) == rank]
    chosen = next((value for value in leading if value.tensor.data is None), leading[0]).order
    tensors = []
    for value in values:
        missing = rank - len(value.order)
        whole = value
        if missing:
            tensor = b.read(value)
            whole = Value(b.reshape(tensor, (*[1] * missing, *tensor.shape)), tuple(range(rank)))
        tensors.append(b.read(whole, chosen))
    return tensors, chosen


def total(b: Builder, op: Op, first: str = "self", second: str = "other") -> Value:
    """Emit the sum or difference of two arguments.

    If the result is quantized, both arguments are rescaled to int32 with the common scale 2 * max(ranges) / 255 /
    2**20, or for 16 bits 2 * max(ranges) / 65535 / 2**12. With this scale the sum fits into 32 bits, and rounding the
    rescaled arguments loses much less than a step of the inputs.
    """
    values = [b.operand(first), b.operand(second)]
    pair, order = aligned(b, values)
    quantizations = [value.quantization for value in values if value.quantization is not None]
    if b.quantization is None or len(quantizations) < len(values):
        return Value(b.compute(op, *pair), order)
    terms, scale = of_one_scale(b, pair, quantizations, b.quantization.dtype)
    return b.finish(b.compute(op, *terms), scale, order)


def of_one_scale(
    b: Builder, tensors: Sequence[Tensor], quantizations: Sequence[Quantization], dtype: DType
) -> tuple[list[Tensor], float]:
    """Rescale integer tensors to int32 with one common scale (see `total`); return the tensors and the scale.

    Args:
        b: The builder.
        tensors: The tensors.
        quantizations: The quantization parameters of the tensors.
        dtype: The dtype of the current node's result; int16 leaves fewer bits of headroom.
    """
    bits, levels = (_HEADROOM, 255) if dtype == DType.INT8 else (_HEADROOM - 8, 65535)
    common = 2 * max(q.step * (q.high - q.low) for q in quantizations) / levels
    terms = [
        b.rescale(tensor, q.step / common * 2**bits, DType.INT32, q.zero_point)
        for tensor, q in zip(tensors, quantizations, strict=True)
    ]
    return terms, common / 2**bits


def product(b: Builder, x: Value, y: Value) -> Value:
    """Emit the product of two values; zero points of quantized values are subtracted first."""
    (left, right), order = aligned(b, [x, y])
    q, p = x.quantization, y.quantization
    if b.quantization is None or q is None or p is None:
        return Value(b.compute(Op.MUL, left, right), order)
    left, right = (b.rescale(x, 1.0, DType.INT32, of.zero_point) for x, of in ((left, q), (right, p)))
    return b.finish(b.compute(Op.MUL, left, right), q.step * p.step, order)


def _quotient(b: Builder) -> Value:
    """Emit a quotient; a constant divisor, which quantized values require, becomes a product with the reciprocal."""
    divisor = b.real_constant(b.argument("other"))
    if divisor is not None:
        return product(b, b.input(), b.real_operand(1 / divisor))
    x, y = b.input(), b.input("other")
    return product(b, x, replace(y, tensor=b.compute(Op.RECIPROCAL, y.tensor)))


def _check_quotient(query: NodeQuery) -> str | None:
    assert isinstance(query, Query)
    divisor = query.argument("other")
    if query.parameters.of(query.node) is None:
        return None
    if not query.is_constant(divisor):
        return "its divisor is not a constant"
    zero = query.constants.has(divisor) and bool((query.constant(divisor) == 0).any())
    return "its divisor has zeros" if zero else None


def clamp(b: Builder, x: Value, low: float, high: float) -> Value:
    """Clamp a value to a range of real numbers; the quantization parameters of the value stay."""
    dtype, limits = x.tensor.dtype, (low, high)
    if x.quantization is not None:
        q = x.quantization
        limits = (q.integer(low), q.integer(high))
        if limits == (q.low, q.high):
            return x
    dtype_limits = [encode(np.array(limit, NUMPY[dtype]), dtype) for limit in limits]
    attribute = Clamp(dtype_limits[0], dtype_limits[1], NanMode.PROPAGATE)
    return Value(b.emit(Op.CLAMP, [x.tensor], x.tensor.shape, dtype, attribute), x.order, x.quantization)


def _clamp(b: Builder) -> Value:
    assert b.node is not None
    x = b.convert(b.input(), b.quantization)
    if b.node.target is aten.relu.default:
        return clamp(b, x, 0.0, math.inf)
    names = ("min_val", "max_val") if b.node.target is aten.hardtanh.default else ("min", "max")
    low, high = (b.argument(name) for name in names)
    return clamp(b, x, -math.inf if low is None else low, math.inf if high is None else high)


_TERMS = ("self", "other")

ROWS = (
    Row(
        aten.add.Tensor,
        FLOAT,
        "alpha must be 1",
        lambda query: None if query.argument("alpha") == 1 else "alpha is not 1",
        False,
        lambda b: total(b, Op.ADD),
        real=_TERMS,
    ),
    Row(
        aten.sub.Tensor,
        FLOAT,
        "alpha must be 1",
        lambda query: None if query.argument("alpha") == 1 else "alpha is not 1",
        False,
        lambda b: total(b, Op.SUB),
        real=_TERMS,
    ),
    Row(
        aten.mul.Tensor,
        FLOAT,
        "",
        None,
        False,
        lambda b: product(b, b.operand("self"), b.operand("other")),
        real=_TERMS,
    ),
    Row(aten.div.Tensor, FLOAT, "quantized only by a constant", _check_quotient, False, _quotient, real=_TERMS),
    Row(aten.relu.default, FLOAT, "", None, False, _clamp),
    Row(aten.hardtanh.default, FLOAT, "", None, False, _clamp),
    Row(aten.clamp.default, FLOAT, "", None, False, _clamp),
)
