"""Lower `masked_fill`, which fills masked elements with a number, to TOSA."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from edgecore.sdk import NodeQuery, argument
from edgecore_tosa.builder.builder import Builder, Value
from edgecore_tosa.builder.operator_table import FLOAT, Query, Row
from edgecore_tosa.graph import Array
from edgecore_tosa.operators.elementwise import aligned
from edgecore_tosa.quantization.attention import SOFTMAX, is_mask
from edgecore_tosa.schema import DType, Op

aten = torch.ops.aten


def hidden_elements(x: Value) -> Array | None:
    """Return the boolean array of the tensor's elements that count as minus infinity; None if no element does."""
    return None if x.hidden is None else x.in_order(x.hidden)


def _mask(b: Builder) -> Value:
    assert b.node is not None
    if is_mask(b.node) and b.constant_of(b.argument("mask")) is not None:
        return _hidden(b)
    return _blended(b) if b.spec.is_u55 else _selected(b)


def _hidden(b: Builder) -> Value:
    """Set masked elements to minus infinity; if quantized, mark them in `hidden`, so that the softmax ignores them."""
    x, mask = b.input(), b.constant_of(b.argument("mask"))
    assert mask is not None
    masked = replace(x, hidden=mask.numpy())
    if x.quantization is not None:
        return masked
    elements = hidden_elements(masked)
    assert elements is not None
    hidden = b.constant(elements, DType.BOOL)
    return Value(b.compute(Op.SELECT, hidden, b.number(-math.inf, x.tensor.dtype, x.tensor.rank), x.tensor), x.order)


def _selected(b: Builder) -> Value:
    x = b.convert(b.input(), b.quantization)
    number = float(b.argument("value"))
    (mask, tensor), order = aligned(b, [b.input("mask"), x])
    filling = b.number(b.quantization.integer(number) if b.quantization else number, tensor.dtype, tensor.rank)
    return Value(b.emit(Op.SELECT, [mask, filling, tensor], tensor.shape, tensor.dtype), order, b.quantization)


def _blended(b: Builder) -> Value:
    """Compute masked_fill of integers as x * ~mask + number * mask, because Ethos-U55 and U65 lack SELECT."""
    x, q, mask = b.convert(b.input(), b.quantization), b.quantization, b.constant_of(b.argument("mask"))
    assert q is not None and mask is not None
    filled = x.in_order(mask.numpy())
    whole = b.rescale(x.tensor, 1.0, DType.INT32, q.zero_point)
    kept = b.compute(Op.MUL, whole, b.constant(~filled, DType.INT32))
    number = q.integer(float(b.argument("value"))) - q.zero_point
    return b.finish(b.compute(Op.ADD, kept, b.constant(filled * number, DType.INT32)), q.step, x.order)


def _check(query: NodeQuery) -> str | None:
    assert isinstance(query, Query)
    mask, value = query.argument("mask"), query.argument("value")
    if query.parameters.of(query.node) is None and not query.spec.floating:
        return None  # `TosaTable.tensor_reason` reports the missing quantization
    if query.node.meta["val"].shape != query.argument("self").meta["val"].shape:
        return "a mask that is larger than its input"
    if not query.is_constant(mask):
        if is_mask(query.node) or query.spec.is_u55:
            return "its mask is not a constant"
        return None
    if not is_mask(query.node):
        return None if math.isfinite(value) or query.parameters.of(query.node) is None else f"fills with {value}"
    return _check_readers(query)


def _check_readers(query: Query) -> str | None:
    """Return a reason unless all nodes that read the result are softmaxes that can ignore elements of -infinity."""
    for user in query.node.users:
        if user.target not in SOFTMAX:
            return "a user that is not softmax"
        dim, hidden = argument(user, "dim"), query.constant(query.argument("mask"))
        rank = len(query.sizes("self"))
        whole = hidden.reshape((1,) * (rank - hidden.dim()) + tuple(hidden.shape)).expand(query.sizes("self"))
        if bool(whole.all(dim).any()):
            return "its mask hides all elements of a row"
    return None


ROWS = (
    Row(
        aten.masked_fill.Scalar,
        FLOAT,
        "-inf by a constant mask before softmax, or a finite number",
        _check,
        True,
        _mask,
        any_dtype=("mask",),
        on_u55="a constant mask, -inf before softmax only",
    ),
)
