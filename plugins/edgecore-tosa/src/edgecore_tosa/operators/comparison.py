"""Lower comparisons, selection by a condition, and elementwise maximum and minimum to TOSA."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from edgecore.sdk import NodeQuery, dtype_name
from edgecore_tosa.builder.builder import Builder, Value
from edgecore_tosa.builder.operator_table import FLOAT, Lower, Query, Row, needs_more_than_u55
from edgecore_tosa.graph import Tensor
from edgecore_tosa.operators.elementwise import aligned, of_one_scale
from edgecore_tosa.quantization.scales import Quantization
from edgecore_tosa.schema import DType, Op

aten = torch.ops.aten

_BOOLEAN = (torch.float32, torch.float16, torch.bool)

_OPERATORS: dict[str, tuple[Op, bool, bool]] = {
    "gt": (Op.GREATER, False, False),
    "ge": (Op.GREATER_EQUAL, False, False),
    "lt": (Op.GREATER, True, False),
    "le": (Op.GREATER_EQUAL, True, False),
    "eq": (Op.EQUAL, False, False),
    "ne": (Op.EQUAL, False, True),
}
"""Maps a comparison to (TOSA operator, True to swap the operands, True to invert the result)."""


_CLOSED = {"gt": "ge", "lt": "le"}
"""Maps a strict comparison with a number to the comparison with the integer `_limit`. For x > 2.5, the limit is the
least integer that represents more than 2.5, so the comparison is x >= limit."""


def _written(b: Builder, name: str, left: Tensor, right: Tensor) -> Tensor:
    """Emit the comparison `name`, such as "gt", of two tensors of the same dtype; return its boolean result."""
    op, is_exchanged, is_inverted = _OPERATORS[name]
    result = b.compute(op, right, left) if is_exchanged else b.compute(op, left, right)
    return b.compute(Op.LOGICAL_NOT, result) if is_inverted else result


_TRUTH = Quantization(1.0, 0, DType.INT8, None, 0, 1)
"""Quantization parameters of a boolean as an integer."""


def _whole(b: Builder, x: Value) -> Value:
    """Convert a boolean value to int32, because TOSA does not compare booleans; return other values unchanged."""
    if x.tensor.dtype != DType.BOOL:
        return x
    return replace(x, tensor=b.emit(Op.CAST, [x.tensor], x.tensor.shape, DType.INT32))


def _compared(name: str) -> Lower:
    def lower(b: Builder) -> Value:
        values = [_whole(b, b.input(name)) for name in _TERMS]
        pair, order = aligned(b, values)
        quantizations = [value.quantization for value in values if value.quantization is not None]
        if len(quantizations) == 2:
            same, dtype = quantizations[0] == quantizations[1], quantizations[0].dtype
            whole = [b.rescale(x, 1.0, DType.INT32) for x in pair] if same else None
            pair = whole or of_one_scale(b, pair, quantizations, dtype)[0]
        return Value(_written(b, name, *pair), order)

    return lower


def _compared_with_number(name: str) -> Lower:
    """Return the function that lowers a comparison with a number; if quantized, the number becomes an integer limit."""

    def lower(b: Builder) -> Value:
        x, number = _whole(b, b.input()), float(b.argument("other"))
        if b.dtype_of_operands == DType.BOOL:
            limit = b.number(_limit(_TRUTH, number, name), DType.INT32, x.tensor.rank)
            return Value(_written(b, _CLOSED.get(name, name), x.tensor, limit), x.order)
        if x.quantization is None:
            return Value(_written(b, name, x.tensor, b.number(number, x.tensor.dtype, x.tensor.rank)), x.order)
        whole = b.rescale(x.tensor, 1.0, DType.INT32)
        limit = b.number(_limit(x.quantization, number, name), DType.INT32, whole.rank)
        return Value(_written(b, _CLOSED.get(name, name), whole, limit), x.order)

    return lower


def _limit(q: Quantization, number: float, name: str) -> int:
    """Return the least integer (for "lt" and "le" the greatest) that fulfils the comparison with `number`.

    Integers are compared by the real numbers that they represent with the parameters `q`. For "ne", return the integer
    that is equal to `number`. If no integer fulfils the comparison, return a number outside of the range of `q`.
    """
    integers = np.arange(q.low, q.high + 1)
    reals = (integers - q.zero_point).astype(np.float32) * np.float32(q.step)
    compare: dict[str, Callable[[Any, Any], Any]] = {
        "gt": np.greater,
        "ge": np.greater_equal,
        "lt": np.less,
        "le": np.less_equal,
        "eq": np.equal,
        "ne": np.equal,
    }
    matching = integers[compare[name](reals, np.float32(number))]
    if not matching.size:
        return -(2**20) if name in ("lt", "le") else 2**20
    return int(matching[-1] if name in ("lt", "le") else matching[0])


def _where(b: Builder) -> Value:
    """Select elements of two values by a condition, which is computed or constant."""
    condition = b.input("condition")
    values = [b.convert(b.operand(name), b.quantization) for name in _TERMS]
    (chooser, *pair), order = aligned(b, [condition, *values])
    shape = tuple(np.broadcast_shapes(chooser.shape, *(x.shape for x in pair)))
    return Value(b.emit(Op.SELECT, [chooser, *pair], shape, pair[0].dtype), order, b.quantization)


def _extreme(op: Op) -> Lower:
    """Return the function that lowers an elementwise maximum or minimum: TOSA has it for int32, but not for int8."""

    def lower(b: Builder) -> Value:
        values = [b.operand("self"), b.operand("other")]
        pair, order = aligned(b, values)
        quantizations = [value.quantization for value in values if value.quantization is not None]
        if b.quantization is None or len(quantizations) < 2:
            return Value(b.compute(op, *pair), order)
        terms, scale = of_one_scale(b, pair, quantizations, b.quantization.dtype)
        return b.finish(b.compute(op, *terms), scale, order)

    return lower


def _logical(op: Op) -> Lower:
    def lower(b: Builder) -> Value:
        (x, y), order = aligned(b, [b.input(), b.input("other")])
        return Value(b.compute(op, x, y), order)

    return lower


def _not(b: Builder) -> Value:
    x = b.input()
    return Value(b.compute(Op.LOGICAL_NOT, x.tensor), x.order)


def _check_compared(query: NodeQuery) -> str | None:
    dtypes = {query.argument(name).meta["val"].dtype for name in _TERMS}
    return None if len(dtypes) == 1 else f"compares {' with '.join(sorted(map(dtype_name, dtypes)))}"


def _check_where(query: NodeQuery) -> str | None:
    assert isinstance(query, Query)
    for name in _TERMS:
        node = query.argument(name)
        if query.parameters.of(query.node) and query.constants.has(node) and not query.constant(node).isfinite().all():
            return f"its argument {name} is not finite"
    return None


_TERMS = ("self", "other")
_NPU = needs_more_than_u55

ROWS = (
    *(
        Row(getattr(aten, name).Tensor, _BOOLEAN, "", _check_compared, False, _compared(name), lacks=_NPU)
        for name in _OPERATORS
    ),
    *(
        Row(getattr(aten, name).Scalar, _BOOLEAN, "", None, False, _compared_with_number(name), lacks=_NPU)
        for name in _OPERATORS
    ),
    Row(aten.where.self, _BOOLEAN, "", _check_where, False, _where, real=_TERMS, lacks=_NPU),
    *(
        Row(target, (torch.bool,), "", None, False, lower, lacks=_NPU)
        for target, lower in (
            (aten.logical_and.default, _logical(Op.LOGICAL_AND)),
            (aten.logical_or.default, _logical(Op.LOGICAL_OR)),
            (aten.logical_not.default, _not),
            (aten.bitwise_and.Tensor, _logical(Op.LOGICAL_AND)),
            (aten.bitwise_or.Tensor, _logical(Op.LOGICAL_OR)),
            (aten.bitwise_not.default, _not),
        )
    ),
    Row(aten.maximum.default, FLOAT, "", None, False, _extreme(Op.MAXIMUM), real=_TERMS),
    Row(aten.minimum.default, FLOAT, "", None, False, _extreme(Op.MINIMUM), real=_TERMS),
)
