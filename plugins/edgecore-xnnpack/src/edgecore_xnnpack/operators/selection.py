"""One value or another, where a mask is constant."""

from __future__ import annotations

from math import inf

import numpy as np
import torch
from torch.fx import Node

from edgecore_xnnpack.lowering import Lowering
from edgecore_xnnpack.net import Value
from edgecore_xnnpack.operators.elementwise import binary
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


def _check_mask(query: Query, name: str) -> str | None:
    return None if query.is_constant(query.argument(name)) else f"{name} not constant"


@lowers(aten.where.self, check=lambda query: _check_mask(query, "condition"), constraints="constant condition",
        unlike=("condition",))  # fmt: skip
def _where(low: Lowering, node: Node) -> Value:
    mask = low.tensor(low.argument("condition"))
    return select(low, mask, low.value(low.argument("self")), low.value(low.argument("other")))


@lowers(aten.masked_fill.Scalar, check=lambda query: _check_mask(query, "mask"), constraints="constant mask",
        unlike=("mask",))  # fmt: skip
def _masked_fill(low: Lowering, node: Node) -> Value:
    return select(low, ~low.tensor(low.argument("mask")), low.input(), low.scalar(float(low.argument("value"))))


@lowers(aten.tril.default, aten.triu.default)
def _triangle(low: Lowering, node: Node) -> Value:
    cut = torch.tril if node.target is aten.tril.default else torch.triu
    mask = cut(torch.ones(low.shape[-2:], dtype=torch.bool), low.argument("diagonal"))
    return select(low, mask, low.input(), low.scalar(0.0))
