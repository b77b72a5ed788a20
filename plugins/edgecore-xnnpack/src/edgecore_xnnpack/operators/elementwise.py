"""Elementwise operators, and the functions that emit unary and binary nodes."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isnan, log
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from edgecore_xnnpack.graph.lower import Lowering
from edgecore_xnnpack.graph.subgraph import TO_LAST, SubgraphValue
from edgecore_xnnpack.operator_table import Query, lowers
from edgecore_xnnpack.schema import graph as g

aten = torch.ops.aten

FLOAT_OR_BOOL = (torch.float32, torch.bool)


def binary(
    low: Lowering, kind: type, left: SubgraphValue, right: SubgraphValue, clamp: tuple[float, float] | None = None
) -> SubgraphValue:
    """Emit a binary node of class `kind`, with ATen's broadcasting."""
    rank = max(len(left.shape), len(right.shape))
    shape = np.broadcast_shapes(left.shape, right.shape)
    return low.emit(kind, [_with_rank(low, left, rank), _with_rank(low, right, rank)], shape, clamp=clamp)


def _with_rank(low: Lowering, value: SubgraphValue, rank: int) -> SubgraphValue:
    """Add leading dimensions of size 1 to an operand, if the result has rank 4 or 5.

    The layout pass permutes the dimensions of results and operands of ranks 4 and 5, so both need the same rank. A
    constant of one element is the same in any layout and does not change.
    """
    if rank not in TO_LAST or (value.constant is not None and value.size == 1):
        return value
    return low.reshape(value, (1,) * (rank - len(value.shape)) + value.shape)


def unary(
    low: Lowering, kind: type, value: SubgraphValue, clamp: tuple[float, float] | None = None, **extra: Any
) -> SubgraphValue:
    """Emit a unary node of class `kind`."""
    return low.emit(kind, [value], value.shape, clamp=clamp, **extra)


def clamped(low: Lowering, value: SubgraphValue, lower: float, upper: float) -> SubgraphValue:
    """Clamp `value` to [lower, upper]; if lower > upper, the result is upper, as in torch."""
    if lower >= upper:  # XNNPACK refuses a clamp to an empty range
        return binary(low, g.Minimum, binary(low, g.Maximum, value, low.scalar(lower)), low.scalar(upper))
    return unary(low, g.Clamp, value, clamp=(lower, upper))


def _other(low: Lowering) -> SubgraphValue:
    """Return the second operand of the node that is being lowered. If it is a number, it becomes a constant."""
    other = low.node.args[1]
    return low.value(other) if isinstance(other, Node) else low.scalar(float(other))  # type: ignore[arg-type]


def _with_alpha(low: Lowering, other: SubgraphValue, alpha: float) -> SubgraphValue:
    if alpha == 1:
        return other
    if other.constant is not None:
        return low.constant(other.constant * alpha)
    return binary(low, g.Multiply, other, low.scalar(alpha))


def _check_sum(query: Query) -> str | None:
    return "a sum of booleans" if query.node.meta["val"].dtype == torch.bool else None


@lowers(aten.add.Tensor, aten.add.Scalar, check=_check_sum, dtypes=FLOAT_OR_BOOL)
def _add(low: Lowering, node: Node) -> SubgraphValue:
    return binary(low, g.Add, low.input(), _with_alpha(low, _other(low), low.argument("alpha")))


@lowers(aten.sub.Tensor, aten.sub.Scalar, dtypes=FLOAT_OR_BOOL)
def _sub(low: Lowering, node: Node) -> SubgraphValue:
    return binary(low, g.Subtract, low.input(), _with_alpha(low, _other(low), low.argument("alpha")))


@lowers(aten.rsub.Scalar)
def _rsub(low: Lowering, node: Node) -> SubgraphValue:
    return binary(low, g.Subtract, _other(low), _with_alpha(low, low.input(), low.argument("alpha")))


@lowers(aten.mul.Tensor, aten.mul.Scalar, dtypes=FLOAT_OR_BOOL)
def _mul(low: Lowering, node: Node) -> SubgraphValue:
    return binary(low, g.Multiply, low.input(), _other(low))


@lowers(aten.div.Tensor, aten.div.Scalar)
def _div(low: Lowering, node: Node) -> SubgraphValue:
    return binary(low, g.Div, low.input(), _other(low))


@lowers(aten.minimum.default)
def _minimum(low: Lowering, node: Node) -> SubgraphValue:
    return binary(low, g.Minimum, low.input(), _other(low))


@lowers(aten.maximum.default)
def _maximum(low: Lowering, node: Node) -> SubgraphValue:
    return binary(low, g.Maximum, low.input(), _other(low))


_UNARY = {
    aten.sigmoid.default: g.Sigmoid,
    aten.hardswish.default: g.Hardswish,
    aten.tanh.default: g.Tanh,
    aten.exp.default: g.Exp,
    aten.log.default: g.Log,
    aten.sqrt.default: g.SquareRoot,
    aten.abs.default: g.Abs,
    aten.neg.default: g.Negate,
    aten.floor.default: g.Floor,
    aten.ceil.default: g.Ceiling,
    aten.square.default: g.Square,
    aten.sin.default: g.Sin,
    aten.cos.default: g.Cos,
}


@lowers(*_UNARY, do_not_decompose=True)
def _unary(low: Lowering, node: Node) -> SubgraphValue:
    return unary(low, _UNARY[node.target], low.input())  # type: ignore[index]


def check_limits(query: Query) -> str | None:
    """Return why the limits of a clamp are not supported; None if they are."""
    names = ("min", "max") if query.node.target is aten.clamp.default else ("min_val", "max_val")
    return "a limit is NaN" if any(isnan(query.argument(name) or 0) for name in names) else None


@lowers(aten.clamp.default, check=check_limits, constraints="limits are numbers")
def _clamp(low: Lowering, node: Node) -> SubgraphValue:
    lower, upper = low.argument("min"), low.argument("max")
    return clamped(low, low.input(), -inf if lower is None else float(lower), inf if upper is None else float(upper))


@lowers(aten.clamp.Tensor)
def _clamp_by_tensors(low: Lowering, node: Node) -> SubgraphValue:
    value, lower, upper = low.input(), low.argument("min"), low.argument("max")
    if lower is not None:
        value = binary(low, g.Maximum, value, low.value(lower))
    return value if upper is None else binary(low, g.Minimum, value, low.value(upper))


def _inverse(low: Lowering, value: SubgraphValue) -> SubgraphValue:
    return binary(low, g.Div, low.scalar(1.0), value)


def _inverse_root(low: Lowering, value: SubgraphValue) -> SubgraphValue:
    """Emit 1 / sqrt(value) without XNNPACK's node, which gives NaN for 0 and infinity instead of infinity and 0."""
    return _inverse(low, unary(low, g.SquareRoot, value))


@lowers(aten.rsqrt.default, do_not_decompose=True)
def _rsqrt(low: Lowering, node: Node) -> SubgraphValue:
    return _inverse_root(low, low.input())


def _cube(low: Lowering, value: SubgraphValue) -> SubgraphValue:
    return binary(low, g.Multiply, unary(low, g.Square, value), value)


_POWERS: dict[float, Callable[[Lowering, SubgraphValue], SubgraphValue]] = {
    -2: lambda low, value: _inverse(low, unary(low, g.Square, value)),
    -1: _inverse,
    -0.5: _inverse_root,
    0.5: lambda low, value: unary(low, g.SquareRoot, value),
    1: lambda low, value: value,
    1.5: lambda low, value: binary(low, g.Multiply, value, unary(low, g.SquareRoot, value)),
    2: lambda low, value: unary(low, g.Square, value),
    3: _cube,
    4: lambda low, value: unary(low, g.Square, unary(low, g.Square, value)),
}
"""Maps each supported exponent to the function that emits this power."""


def _check_power(query: Query) -> str | None:
    exponent = query.argument("exponent")
    return None if exponent in _POWERS else f"exponent {exponent}"


@lowers(aten.pow.Tensor_Scalar, check=_check_power, constraints="exponent " + ", ".join(map(str, _POWERS)))
def _power(low: Lowering, node: Node) -> SubgraphValue:
    return _POWERS[low.argument("exponent")](low, low.input())


def _check_exponential(query: Query) -> str | None:
    base = query.argument("self")
    return None if base > 0 else f"base {base}"


@lowers(aten.pow.Scalar, check=_check_exponential, constraints="base above 0")
def _exponential(low: Lowering, node: Node) -> SubgraphValue:
    exponent = low.value(low.argument("exponent"))
    return unary(low, g.Exp, binary(low, g.Multiply, exponent, low.scalar(log(low.argument("self")))))


@lowers(aten.log2.default, aten.log10.default)
def _logarithm(low: Lowering, node: Node) -> SubgraphValue:
    base = 2 if node.target is aten.log2.default else 10
    return binary(low, g.Multiply, unary(low, g.Log, low.input()), low.scalar(1 / log(base)))


@lowers(aten.reciprocal.default)
def _reciprocal(low: Lowering, node: Node) -> SubgraphValue:
    return binary(low, g.Div, low.scalar(1.0), low.input())


@lowers(aten.clone.default, aten.alias_copy.default, aten.detach_copy.default, dtypes=FLOAT_OR_BOOL)
def _copy(low: Lowering, node: Node) -> SubgraphValue:
    return low.input()
