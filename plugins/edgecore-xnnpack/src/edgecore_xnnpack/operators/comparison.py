"""Comparisons, logic and rounding. XNNPACK has no comparison node and no boolean type.

Booleans are float32 numbers, 0 and 1, and never leave a delegate (`partitioner.py`). A comparison computes the
difference of its operands (`_difference`) and maps it to -1, 0 or 1 by two saturating multiplications (`_saturate`).
XNNPACK flushes denormals to zero, so that numbers compare as equal if they differ by less than 2^-126. The result of a
comparison with NaN is undefined: it depends on the minimum and maximum instructions of the processor.
"""

from __future__ import annotations

from math import inf, isfinite
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from edgecore_xnnpack.graph.lower import Lowering
from edgecore_xnnpack.graph.subgraph import SubgraphValue
from edgecore_xnnpack.operator_table import Query, lowers
from edgecore_xnnpack.operators.elementwise import FLOAT_OR_BOOL, binary, clamped, unary
from edgecore_xnnpack.schema import graph as g

aten = torch.ops.aten

_STEEP = 2.0**75
"""The factor by which `_saturate` multiplies twice: 2^150 times the smallest denormal, 2^-149, is 2, more than 1."""

FLOAT32_MAX = float(np.finfo(np.float32).max)
_FIRST_INTEGER = 2.0**23
"""float32 numbers of at least this size are integers: their last bit is worth 1 or more."""


def sign(low: Lowering, value: SubgraphValue) -> SubgraphValue:
    """Emit the sign of `value`: -1, 0 or 1."""
    return _saturate(low, value, -1.0)


def _saturate(low: Lowering, value: SubgraphValue, lower: float) -> SubgraphValue:
    """Emit `lower` (-1 or 0) for negative numbers, 0 for 0, and 1 for positive numbers.

    The formula is clamp(2^75 * clamp(2^75 * x, lower, 1), lower, 1). 0 stays 0. Every other x reaches a limit: two
    factors of 2^75 increase even the smallest denormal above 1. One factor would have to be 2^149, but float32 numbers
    are below 2^128. In fp16 the factor becomes 65504, and two multiplications are again enough for every denormal.
    Infinities reach a limit. A denormal counts as 0 where XNNPACK flushes denormals, as on x86-64 and Arm. The result
    for NaN is undefined. Multiplication nodes clamp their output at no cost, so that a comparison is three nodes: a
    subtraction and two multiplications.
    """
    for _ in range(2):
        value = binary(low, g.Multiply, value, low.scalar(_STEEP), clamp=(lower, 1.0))
    return value


def logical_not(low: Lowering, boolean: SubgraphValue) -> SubgraphValue:
    """Emit the negation of a boolean, 1 - x."""
    return binary(low, g.Subtract, low.scalar(1.0), boolean)


def _greater(low: Lowering, left: SubgraphValue, right: SubgraphValue) -> SubgraphValue:
    return _saturate(low, _difference(low, left, right), 0.0)


def _not_equal(low: Lowering, left: SubgraphValue, right: SubgraphValue) -> SubgraphValue:
    return _saturate(low, unary(low, g.Abs, _difference(low, left, right)), 0.0)


def _difference(low: Lowering, left: SubgraphValue, right: SubgraphValue) -> SubgraphValue:
    """Emit a number with the sign of left - right.

    inf - inf is NaN. So, if both operands are computed at run time, they are clamped to finite numbers first: equal
    infinities then compare as equal, but so do an infinity and the largest finite number. If one operand is constant,
    it is finite (`_check_comparison`), and its difference from an infinity is correct without clamping.
    """
    if _is_zero(right):
        return left
    if left.constant is None and right.constant is None:
        left, right = (clamped(low, value, -FLOAT32_MAX, FLOAT32_MAX) for value in (left, right))
    return binary(low, g.Subtract, left, right)


def _is_zero(value: SubgraphValue) -> bool:
    return value.constant is not None and value.size == 1 and not value.constant.any()


def _check_comparison(query: Query) -> str | None:
    left, right = query.argument("self"), query.argument("other")
    if left is right:
        return "compares a tensor with itself"
    if not isinstance(right, Node):
        return None if isfinite(right) else f"a comparison with {right}"
    tensors = [query.constant(side) for side in (left, right) if query.is_constant(side) and side.op == "placeholder"]
    return None if all(tensor.isfinite().all() for tensor in tensors) else "a comparison with infinity"


def _operands(low: Lowering) -> tuple[SubgraphValue, SubgraphValue]:
    other = low.argument("other")
    return low.input(), low.value(other) if isinstance(other, Node) else low.scalar(float(other))


_FINITE = "finite constants; the result stays inside the delegate"


@lowers(aten.gt.Tensor, aten.gt.Scalar, aten.le.Tensor, aten.le.Scalar, check=_check_comparison, constraints=_FINITE,
        dtypes=FLOAT_OR_BOOL)  # fmt: skip
def _gt_le(low: Lowering, node: Node) -> SubgraphValue:
    result = _greater(low, *_operands(low))
    return logical_not(low, result) if node.target in (aten.le.Tensor, aten.le.Scalar) else result


@lowers(aten.lt.Tensor, aten.lt.Scalar, aten.ge.Tensor, aten.ge.Scalar, check=_check_comparison, constraints=_FINITE,
        dtypes=FLOAT_OR_BOOL)  # fmt: skip
def _lt_ge(low: Lowering, node: Node) -> SubgraphValue:
    left, right = _operands(low)
    result = _greater(low, unary(low, g.Negate, left), right) if _is_zero(right) else _greater(low, right, left)
    return logical_not(low, result) if node.target in (aten.ge.Tensor, aten.ge.Scalar) else result


@lowers(aten.ne.Tensor, aten.ne.Scalar, aten.eq.Tensor, aten.eq.Scalar, check=_check_comparison, constraints=_FINITE,
        dtypes=FLOAT_OR_BOOL)  # fmt: skip
def _ne_eq(low: Lowering, node: Node) -> SubgraphValue:
    result = _not_equal(low, *_operands(low))
    return logical_not(low, result) if node.target in (aten.eq.Tensor, aten.eq.Scalar) else result


def as_boolean(low: Lowering, node: Any) -> SubgraphValue:
    """Return the value of a node as booleans; a number that is not 0 becomes 1."""
    value = low.value(node)
    if node.meta["val"].dtype == torch.bool:
        return value
    if value.constant is not None:
        return low.constant(value.constant != 0)
    return _not_equal(low, value, low.scalar(0.0))


@lowers(aten.logical_and.default, aten.bitwise_and.Tensor, dtypes=FLOAT_OR_BOOL)
def _and(low: Lowering, node: Node) -> SubgraphValue:
    return binary(low, g.Multiply, as_boolean(low, node.args[0]), as_boolean(low, node.args[1]))


@lowers(aten.logical_or.default, aten.bitwise_or.Tensor, dtypes=FLOAT_OR_BOOL)
def _or(low: Lowering, node: Node) -> SubgraphValue:
    return binary(low, g.Maximum, as_boolean(low, node.args[0]), as_boolean(low, node.args[1]))


@lowers(aten.logical_xor.default, aten.bitwise_xor.Tensor, dtypes=FLOAT_OR_BOOL)
def _xor(low: Lowering, node: Node) -> SubgraphValue:
    return unary(low, g.Abs, binary(low, g.Subtract, as_boolean(low, node.args[0]), as_boolean(low, node.args[1])))


@lowers(aten.logical_not.default, aten.bitwise_not.default, dtypes=FLOAT_OR_BOOL)
def _not(low: Lowering, node: Node) -> SubgraphValue:
    return logical_not(low, as_boolean(low, node.args[0]))


@lowers(aten._to_copy.default, dtypes=FLOAT_OR_BOOL)
def _cast(low: Lowering, node: Node) -> SubgraphValue:
    """Emit a cast. A cast to fp16 only rounds: it converts to fp16 and back, because values stay fp32 here."""
    source, dtype = node.args[0], node.meta["val"].dtype
    assert isinstance(source, Node)
    if dtype == torch.bool:
        return as_boolean(low, source)
    if dtype != torch.float16 or source.meta["val"].dtype != torch.float32:
        return low.input()
    rounded = low.emit(g.Convert, [low.input()], low.shape)
    rounded.is_fp16 = True
    return low.emit(g.Convert, [rounded], low.shape)


@lowers(aten.sign.default)
def _sign(low: Lowering, node: Node) -> SubgraphValue:
    return sign(low, low.input())


@lowers(aten.trunc.default)
def _trunc(low: Lowering, node: Node) -> SubgraphValue:
    """Emit trunc(x) = max(floor(x), 0) + min(ceil(x), 0): one term is the result, the other is 0. Undefined for NaN."""
    down = clamped(low, unary(low, g.Floor, low.input()), 0.0, inf)
    return binary(low, g.Add, down, clamped(low, unary(low, g.Ceiling, low.input()), -inf, 0.0))


@lowers(aten.round.default)
def _round(low: Lowering, node: Node) -> SubgraphValue:
    """Round to the nearest integer, ties to even, by additions: executorch 1.5's XNNPACK nodes include no rounding.

    round(x) = sign(x) * (min(|x|, 2^23) + 2^23 - 2^24 + max(|x|, 2^23)), computed from left to right. The first sum is
    between 2^23 and 2^24, where float32 numbers are integers, so that the addition itself rounds to nearest, ties to
    even. The other two terms then subtract 2^23 again. If |x| is 2^23 or more, x is an integer already: the first
    three terms are 0, and the maximum is |x|, also for infinity. The result for NaN is undefined.
    """
    size = unary(low, g.Abs, low.input())
    with low.in_fp32():  # compute in fp32, because 2^23 is beyond the range of fp16
        moved = binary(low, g.Add, clamped(low, size, 0.0, _FIRST_INTEGER), low.scalar(_FIRST_INTEGER))
        below = binary(low, g.Subtract, moved, low.scalar(2 * _FIRST_INTEGER))
        rounded = binary(low, g.Add, below, clamped(low, size, _FIRST_INTEGER, inf))
    return binary(low, g.Multiply, rounded, sign(low, low.input()))
