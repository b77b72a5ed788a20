"""Comparisons and logic. Truth values are 0 and 1 in float32, and never leave a delegate (`booleans.py`).

XNNPACK takes numbers below 2^-126 for 0, so that numbers which differ by less are equal.
"""

from __future__ import annotations

from math import inf, isfinite
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from edgecore_xnnpack.lowering import Lowering
from edgecore_xnnpack.net import Value
from edgecore_xnnpack.operators.elementwise import FLOAT_OR_BOOL, binary, clamped, unary
from edgecore_xnnpack.operators.table import Query, lowers
from edgecore_xnnpack.schema import graph as g

aten = torch.ops.aten

_STEEP = 2.0**75
"""Twice times this, the least positive number is above 1."""

_GREATEST = float(np.finfo(np.float32).max)
_WHOLE = 2.0**23
"""From there on every number is whole."""


def sign(low: Lowering, value: Value) -> Value:
    """-1, 0 or 1."""
    return _saturated(low, value, -1.0)


def _saturated(low: Lowering, value: Value, least: float) -> Value:
    """`value` so enlarged that it is `least` below 0 and 1 above."""
    for _ in range(2):
        value = binary(low, g.Multiply, value, low.scalar(_STEEP), clamp=(least, 1.0))
    return value


def opposite(low: Lowering, truth: Value) -> Value:
    """Not."""
    return binary(low, g.Subtract, low.scalar(1.0), truth)


def _is_above(low: Lowering, left: Value, right: Value) -> Value:
    return _saturated(low, _difference(low, left, right), 0.0)


def _differs(low: Lowering, left: Value, right: Value) -> Value:
    return _saturated(low, unary(low, g.Abs, _difference(low, left, right)), 0.0)


def _difference(low: Lowering, left: Value, right: Value) -> Value:
    """What has the sign of left - right; that of an infinity and itself would be no number."""
    if _is_zero(right):
        return left
    if left.constant is None and right.constant is None:
        left, right = (clamped(low, value, -_GREATEST, _GREATEST) for value in (left, right))
    return binary(low, g.Subtract, left, right)


def _is_zero(value: Value) -> bool:
    return value.constant is not None and value.size == 1 and not value.constant.any()


def _check_comparison(query: Query) -> str | None:
    left, right = query.argument("self"), query.argument("other")
    if left is right:
        return "a comparison of numbers with themselves"
    if not isinstance(right, Node):
        return None if isfinite(right) else f"a comparison with {right}"
    tensors = [query.constant(one) for one in (left, right) if query.is_constant(one) and one.op == "placeholder"]
    return None if all(one.isfinite().all() for one in tensors) else "a comparison with infinity"


def _operands(low: Lowering) -> tuple[Value, Value]:
    other = low.argument("other")
    return low.input(), low.value(other) if isinstance(other, Node) else low.scalar(float(other))


_FINITE = "of finite numbers; the result stays inside"


@lowers(aten.gt.Tensor, aten.gt.Scalar, aten.le.Tensor, aten.le.Scalar, check=_check_comparison, constraints=_FINITE,
        dtypes=FLOAT_OR_BOOL)  # fmt: skip
def _above(low: Lowering, node: Node) -> Value:
    result = _is_above(low, *_operands(low))
    return opposite(low, result) if node.target in (aten.le.Tensor, aten.le.Scalar) else result


@lowers(aten.lt.Tensor, aten.lt.Scalar, aten.ge.Tensor, aten.ge.Scalar, check=_check_comparison, constraints=_FINITE,
        dtypes=FLOAT_OR_BOOL)  # fmt: skip
def _below(low: Lowering, node: Node) -> Value:
    left, right = _operands(low)
    result = _is_above(low, unary(low, g.Negate, left), right) if _is_zero(right) else _is_above(low, right, left)
    return opposite(low, result) if node.target in (aten.ge.Tensor, aten.ge.Scalar) else result


@lowers(aten.ne.Tensor, aten.ne.Scalar, aten.eq.Tensor, aten.eq.Scalar, check=_check_comparison, constraints=_FINITE,
        dtypes=FLOAT_OR_BOOL)  # fmt: skip
def _unequal(low: Lowering, node: Node) -> Value:
    result = _differs(low, *_operands(low))
    return opposite(low, result) if node.target in (aten.eq.Tensor, aten.eq.Scalar) else result


def truth(low: Lowering, node: Any) -> Value:
    """Whether each number of a node differs from 0."""
    value = low.value(node)
    if node.meta["val"].dtype == torch.bool:
        return value
    if value.constant is not None:
        return low.constant(value.constant != 0)
    return _differs(low, value, low.scalar(0.0))


@lowers(aten.logical_and.default, aten.bitwise_and.Tensor, dtypes=FLOAT_OR_BOOL)
def _and(low: Lowering, node: Node) -> Value:
    return binary(low, g.Multiply, truth(low, node.args[0]), truth(low, node.args[1]))


@lowers(aten.logical_or.default, aten.bitwise_or.Tensor, dtypes=FLOAT_OR_BOOL)
def _or(low: Lowering, node: Node) -> Value:
    return binary(low, g.Maximum, truth(low, node.args[0]), truth(low, node.args[1]))


@lowers(aten.logical_xor.default, aten.bitwise_xor.Tensor, dtypes=FLOAT_OR_BOOL)
def _xor(low: Lowering, node: Node) -> Value:
    return unary(low, g.Abs, binary(low, g.Subtract, truth(low, node.args[0]), truth(low, node.args[1])))


@lowers(aten.logical_not.default, aten.bitwise_not.default, dtypes=FLOAT_OR_BOOL)
def _not(low: Lowering, node: Node) -> Value:
    return opposite(low, truth(low, node.args[0]))


@lowers(aten._to_copy.default, dtypes=FLOAT_OR_BOOL)
def _cast(low: Lowering, node: Node) -> Value:
    return truth(low, node.args[0]) if node.meta["val"].dtype == torch.bool else low.input()


@lowers(aten.sign.default)
def _sign(low: Lowering, node: Node) -> Value:
    return sign(low, low.input())


@lowers(aten.trunc.default)
def _trunc(low: Lowering, node: Node) -> Value:
    """Down above 0, up below."""
    down = clamped(low, unary(low, g.Floor, low.input()), 0.0, inf)
    return binary(low, g.Add, down, clamped(low, unary(low, g.Ceiling, low.input()), -inf, 0.0))


@lowers(aten.round.default)
def _round(low: Lowering, node: Node) -> Value:
    """To the nearest whole number, ties to even: between 2^23 and 2^24 there are no others, so addition rounds."""
    size = unary(low, g.Abs, low.input())
    moved = binary(low, g.Add, clamped(low, size, 0.0, _WHOLE), low.scalar(_WHOLE))
    below = binary(low, g.Subtract, moved, low.scalar(2 * _WHOLE))
    rounded = binary(low, g.Add, below, clamped(low, size, _WHOLE, inf))
    return binary(low, g.Multiply, rounded, sign(low, low.input()))
