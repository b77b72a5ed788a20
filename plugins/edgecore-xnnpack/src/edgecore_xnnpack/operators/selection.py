"""One value or another, by a mask."""

from __future__ import annotations

from math import inf, isnan

import numpy as np
import torch
from torch.fx import Node

from edgecore_xnnpack.lowering import Lowering
from edgecore_xnnpack.net import Value
from edgecore_xnnpack.operators.comparison import opposite
from edgecore_xnnpack.operators.elementwise import FLOAT_OR_BOOL, binary, unary
from edgecore_xnnpack.operators.shape import expand
from edgecore_xnnpack.operators.table import Query, lowers
from edgecore_xnnpack.schema import graph as g

aten = torch.ops.aten


def select(low: Lowering, mask: torch.Tensor, chosen: Value, other: Value) -> Value:
    """`chosen` where `mask` is true, else `other`, by minima with +inf or -inf and a maximum: no number changes."""
    shape = np.broadcast_shapes(tuple(mask.shape), chosen.shape, other.shape)
    limit = np.where(mask.numpy(), np.float32(inf), np.float32(-inf))
    first, second = (_limited(low, value, bound) for value, bound in ((chosen, limit), (other, -limit)))
    return expand(low, binary(low, g.Maximum, first, second), shape)


def _limited(low: Lowering, value: Value, limit: np.ndarray) -> Value:
    if value.constant is not None:
        return low.constant(np.minimum(value.constant, limit))
    return binary(low, g.Minimum, value, low.constant(limit))


def choose(low: Lowering, mask: Value, chosen: Value, other: Value) -> Value:
    """`select` by a mask that is computed: half more or less than 0, divided by 0, is the limit."""
    limit = binary(low, g.Div, binary(low, g.Subtract, mask, low.scalar(0.5)), low.scalar(0.0))
    first = binary(low, g.Minimum, chosen, limit)
    if other.constant is not None and np.isneginf(other.constant).all():
        return first
    return binary(low, g.Maximum, first, binary(low, g.Minimum, other, unary(low, g.Negate, limit)))


def _check_constants(query: Query) -> str | None:
    """A minimum or maximum with NaN is whichever operand the processor says."""
    value = query.node.args[2] if query.node.target is aten.masked_fill.Scalar else None
    if isinstance(value, float) and isnan(value):
        return "NaN is chosen"
    for source in query.node.all_input_nodes:
        if source.op == "placeholder" and query.is_constant(source) and bool(query.constant(source).isnan().any()):
            return "NaN is chosen"
    return None


@lowers(aten.where.self, dtypes=FLOAT_OR_BOOL, check=_check_constants, constraints="no constant has NaN")
def _where(low: Lowering, node: Node) -> Value:
    condition, *values = (low.argument(name) for name in ("condition", "self", "other"))
    mask, values = low.tensor(condition), [low.value(value) for value in values]
    if mask is not None:
        return select(low, mask, *values)
    return expand(low, choose(low, low.value(condition), *values), low.shape)


@lowers(aten.masked_fill.Scalar, dtypes=FLOAT_OR_BOOL, check=_check_constants, constraints="no constant has NaN")
def _masked_fill(low: Lowering, node: Node) -> Value:
    given, value = low.argument("mask"), low.argument("value")
    number = low.scalar(float(bool(value) if node.meta["val"].dtype == torch.bool else value))
    mask = low.tensor(given)
    if mask is not None:
        return select(low, ~mask, low.input(), number)
    return choose(low, opposite(low, low.value(given)), low.input(), number)


@lowers(aten.tril.default, aten.triu.default)
def _triangle(low: Lowering, node: Node) -> Value:
    cut = torch.tril if node.target is aten.tril.default else torch.triu
    mask = cut(torch.ones(low.shape[-2:], dtype=torch.bool), low.argument("diagonal"))
    return select(low, mask, low.input(), low.scalar(0.0))
