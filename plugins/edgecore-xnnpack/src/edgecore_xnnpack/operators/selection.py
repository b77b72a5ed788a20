"""Select elements of one value or another by a mask, such as `where`. XNNPACK has no select node.

Identity: with a limit of +inf where the mask is true and -inf elsewhere,
`max(min(chosen, limit), min(other, -limit))` is `chosen` where the mask is true and `other` elsewhere, because
min(x, +inf) = x, min(x, -inf) = -inf and max(x, -inf) = x. This is exact for every number and for infinities, but
XNNPACK replaces denormals by 0. NaN is not supported: the processor decides whether the minimum or maximum of NaN and
a number is NaN or the number (on x86-64, a selected NaN becomes an infinity).
"""

from __future__ import annotations

from math import inf, isnan

import numpy as np
import torch
from torch.fx import Node

from edgecore_xnnpack.graph.lower import Lowering
from edgecore_xnnpack.graph.subgraph import SubgraphValue
from edgecore_xnnpack.operator_table import Query, lowers
from edgecore_xnnpack.operators.comparison import logical_not
from edgecore_xnnpack.operators.elementwise import FLOAT_OR_BOOL, binary, unary
from edgecore_xnnpack.operators.shape import expand
from edgecore_xnnpack.schema import graph as g

aten = torch.ops.aten


def select(low: Lowering, mask: torch.Tensor, chosen: SubgraphValue, other: SubgraphValue) -> SubgraphValue:
    """Emit `chosen` where the constant `mask` is true, and `other` elsewhere."""
    shape = np.broadcast_shapes(tuple(mask.shape), chosen.shape, other.shape)
    limit = np.where(mask.numpy(), np.float32(inf), np.float32(-inf))
    first, second = (_limited(low, value, bound) for value, bound in ((chosen, limit), (other, -limit)))
    return expand(low, binary(low, g.Maximum, first, second), shape)


def _limited(low: Lowering, value: SubgraphValue, limit: np.ndarray) -> SubgraphValue:
    if value.constant is not None:
        return low.constant(np.minimum(value.constant, limit))
    return binary(low, g.Minimum, value, low.constant(limit))


def choose(low: Lowering, mask: SubgraphValue, chosen: SubgraphValue, other: SubgraphValue) -> SubgraphValue:
    """Emit `chosen` where `mask` is 1 and `other` where it is 0; `mask` is a boolean tensor computed at run time.

    The limit (see the identity in the module's docstring) is (mask - 0.5) / 0: by IEEE 754, 0.5 / 0 = +inf and
    -0.5 / 0 = -inf, and XNNPACK's division follows IEEE 754. The mask is 0 or 1, so that 0 / 0 does not occur.
    Multiplying by a large number instead is not exact: 0.5 times the largest float32 is 1.7e38, and the minimum would
    clip larger numbers.
    If `other` is -inf everywhere, as in an attention mask, the first minimum already is the result.
    """
    limit = binary(low, g.Div, binary(low, g.Subtract, mask, low.scalar(0.5)), low.scalar(0.0))
    first = binary(low, g.Minimum, chosen, limit)
    if other.constant is not None and np.isneginf(other.constant).all():
        return first
    return binary(low, g.Maximum, first, binary(low, g.Minimum, other, unary(low, g.Negate, limit)))


def _check_constants(query: Query) -> str | None:
    """Return why an fx node is not supported if a constant has a NaN, which this lowering cannot select; else None."""
    value = query.node.args[2] if query.node.target is aten.masked_fill.Scalar else None
    if isinstance(value, float) and isnan(value):
        return "selects from a constant with NaN"
    for source in query.node.all_input_nodes:
        if source.op == "placeholder" and query.is_constant(source) and bool(query.constant(source).isnan().any()):
            return "selects from a constant with NaN"
    return None


@lowers(aten.where.self, dtypes=FLOAT_OR_BOOL, check=_check_constants, constraints="no constant has NaN")
def _where(low: Lowering, node: Node) -> SubgraphValue:
    condition, *values = (low.argument(name) for name in ("condition", "self", "other"))
    mask, values = low.tensor(condition), [low.value(value) for value in values]
    if mask is not None:
        return select(low, mask, *values)
    return expand(low, choose(low, low.value(condition), *values), low.shape)


@lowers(aten.masked_fill.Scalar, dtypes=FLOAT_OR_BOOL, check=_check_constants, constraints="no constant has NaN")
def _masked_fill(low: Lowering, node: Node) -> SubgraphValue:
    mask_node, value = low.argument("mask"), low.argument("value")
    number = low.scalar(float(bool(value) if node.meta["val"].dtype == torch.bool else value))
    mask = low.tensor(mask_node)
    if mask is not None:
        return select(low, ~mask, low.input(), number)
    return choose(low, logical_not(low, low.value(mask_node)), low.input(), number)


@lowers(aten.tril.default, aten.triu.default)
def _triangle(low: Lowering, node: Node) -> SubgraphValue:
    cut = torch.tril if node.target is aten.tril.default else torch.triu
    mask = cut(torch.ones(low.shape[-2:], dtype=torch.bool), low.argument("diagonal"))
    return select(low, mask, low.input(), low.scalar(0.0))
