"""Operators that compute each element by itself, with broadcasting."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from edgecore_xnnpack.lowering import Lowering
from edgecore_xnnpack.net import LAST, TIED, Value
from edgecore_xnnpack.operators.table import Query, lowers
from edgecore_xnnpack.schema import graph as g

aten = torch.ops.aten


def binary(low: Lowering, kind: type, left: Value, right: Value, clamp: tuple[float, float] | None = None) -> Value:
    """A binary operation with ATen's broadcasting."""
    rank = max(len(left.shape), len(right.shape))
    shape = np.broadcast_shapes(left.shape, right.shape)
    return low.emit(kind, [_with_rank(low, left, rank), _with_rank(low, right, rank)], shape, clamp=clamp)


def _with_rank(low: Lowering, value: Value, rank: int) -> Value:
    """Leading ones, where a rank of 4 has two layouts, so that dimensions keep their meaning; a number needs none."""
    if rank != 4 or (value.constant is not None and value.size == 1):
        return value
    return low.reshape(value, (1,) * (rank - len(value.shape)) + value.shape)


def unary(low: Lowering, kind: type, value: Value, clamp: tuple[float, float] | None = None, **extra: Any) -> Value:
    """An operation on one value."""
    return low.emit(kind, [value], value.shape, clamp=clamp, **extra)


def clamped(low: Lowering, value: Value, lower: float, upper: float) -> Value:
    """`value` within [lower, upper]."""
    return unary(low, g.Clamp, value, clamp=(lower, upper))


def _other(low: Lowering) -> Value:
    """The second operand: a tensor, or a number."""
    other = low.node.args[1]
    return low.value(other) if isinstance(other, Node) else low.scalar(float(other))  # type: ignore[arg-type]


def _with_alpha(low: Lowering, other: Value, alpha: float) -> Value:
    if alpha == 1:
        return other
    if other.constant is not None:
        return low.constant(other.constant * alpha)
    return binary(low, g.Multiply, other, low.scalar(alpha))


@lowers(aten.add.Tensor, aten.add.Scalar)
def _add(low: Lowering, node: Node) -> Value:
    return binary(low, g.Add, low.input(), _with_alpha(low, _other(low), low.argument("alpha")))


@lowers(aten.sub.Tensor, aten.sub.Scalar)
def _sub(low: Lowering, node: Node) -> Value:
    return binary(low, g.Subtract, low.input(), _with_alpha(low, _other(low), low.argument("alpha")))


@lowers(aten.rsub.Scalar)
def _rsub(low: Lowering, node: Node) -> Value:
    return binary(low, g.Subtract, _other(low), _with_alpha(low, low.input(), low.argument("alpha")))


@lowers(aten.mul.Tensor, aten.mul.Scalar)
def _mul(low: Lowering, node: Node) -> Value:
    return binary(low, g.Multiply, low.input(), _other(low))


@lowers(aten.div.Tensor, aten.div.Scalar)
def _div(low: Lowering, node: Node) -> Value:
    return binary(low, g.Div, low.input(), _other(low))


@lowers(aten.minimum.default)
def _minimum(low: Lowering, node: Node) -> Value:
    return binary(low, g.Minimum, low.input(), _other(low))


@lowers(aten.maximum.default)
def _maximum(low: Lowering, node: Node) -> Value:
    return binary(low, g.Maximum, low.input(), _other(low))


_UNARY = {
    aten.sigmoid.default: g.Sigmoid,
    aten.hardswish.default: g.Hardswish,
    aten.tanh.default: g.Tanh,
    aten.exp.default: g.Exp,
    aten.log.default: g.Log,
    aten.sqrt.default: g.SquareRoot,
    aten.rsqrt.default: g.ReciprocalSquareRoot,
    aten.abs.default: g.Abs,
    aten.neg.default: g.Negate,
    aten.floor.default: g.Floor,
    aten.ceil.default: g.Ceiling,
    aten.square.default: g.Square,
    aten.sin.default: g.Sin,
    aten.cos.default: g.Cos,
}


@lowers(*_UNARY, whole=True)
def _unary(low: Lowering, node: Node) -> Value:
    return unary(low, _UNARY[node.target], low.input())  # type: ignore[index]


def _check_gelu(query: Query) -> str | None:
    return None if query.argument("approximate") == "none" else "approximate tanh"


@lowers(aten.gelu.default, check=_check_gelu, constraints="approximate none", whole=True)
def _gelu(low: Lowering, node: Node) -> Value:
    return unary(low, g.Gelu, low.input())


@lowers(aten.silu.default, whole=True)
def _silu(low: Lowering, node: Node) -> Value:
    return binary(low, g.Multiply, low.input(), unary(low, g.Sigmoid, low.input()))


@lowers(aten.hardsigmoid.default, whole=True)
def _hardsigmoid(low: Lowering, node: Node) -> Value:
    shifted = binary(low, g.Add, low.input(), low.scalar(3.0), clamp=(0.0, 6.0))
    return binary(low, g.Multiply, shifted, low.scalar(1 / 6))


@lowers(aten.relu.default)
def _relu(low: Lowering, node: Node) -> Value:
    return clamped(low, low.input(), 0.0, inf)


@lowers(aten.relu6.default, whole=True)
def _relu6(low: Lowering, node: Node) -> Value:
    return clamped(low, low.input(), 0.0, 6.0)


@lowers(aten.hardtanh.default)
def _hardtanh(low: Lowering, node: Node) -> Value:
    return clamped(low, low.input(), float(low.argument("min_val")), float(low.argument("max_val")))


def _check_clamp(query: Query) -> str | None:
    lower, upper = query.argument("min"), query.argument("max")
    return "min not below max" if lower is not None and upper is not None and lower >= upper else None


@lowers(aten.clamp.default, check=_check_clamp, constraints="min below max")
def _clamp(low: Lowering, node: Node) -> Value:
    lower, upper = low.argument("min"), low.argument("max")
    return clamped(low, low.input(), -inf if lower is None else float(lower), inf if upper is None else float(upper))


def _check_elu(query: Query) -> str | None:
    if query.argument("scale") != 1 or query.argument("input_scale") != 1:
        return "scale"
    return None if query.argument("alpha") > 0 else "alpha not positive"


@lowers(aten.elu.default, check=_check_elu, constraints="scale 1, alpha above 0", whole=True)
def _elu(low: Lowering, node: Node) -> Value:
    return unary(low, g.ELU, low.input(), alpha=float(low.argument("alpha")))


@lowers(aten.leaky_relu.default, whole=True)
def _leaky_relu(low: Lowering, node: Node) -> Value:
    return unary(low, g.LeakyReLU, low.input(), negative_slope=float(low.argument("negative_slope")))


def _check_prelu(query: Query) -> str | None:
    if not query.is_constant(query.argument("weight")):
        return "weight not constant"
    rank = len(query.shape)
    if query.argument("weight").meta["val"].numel() > 1 and rank not in (2, 4):
        return f"rank {rank}"
    return None


@lowers(aten.prelu.default, aten._prelu_kernel.default, check=_check_prelu, whole=True,
        constraints="constant weight; one slope, or one per channel of rank 2 or 4")  # fmt: skip
def _prelu(low: Lowering, node: Node) -> Value:
    slope = low.array(low.argument("weight"))
    assert slope is not None
    value = low.input()
    if slope.size == 1:
        return unary(low, g.LeakyReLU, value, negative_slope=float(slope.reshape(-1)[0]))
    rule = LAST if len(value.shape) == 4 else TIED
    return low.emit(g.PReLU, [value, low.constant(slope.reshape(-1))], value.shape, rule)


def _check_power(query: Query) -> str | None:
    exponent = query.argument("exponent")
    return None if exponent in (0.5, 1, 2) else f"exponent {exponent}"


@lowers(aten.pow.Tensor_Scalar, check=_check_power, constraints="exponent 0.5, 1 or 2")
def _power(low: Lowering, node: Node) -> Value:
    exponent = low.argument("exponent")
    if exponent == 1:
        return low.input()
    return unary(low, g.Square if exponent == 2 else g.SquareRoot, low.input())


@lowers(aten.reciprocal.default)
def _reciprocal(low: Lowering, node: Node) -> Value:
    return binary(low, g.Div, low.scalar(1.0), low.input())


@lowers(aten.clone.default, aten._to_copy.default, aten.alias_copy.default, aten.detach_copy.default)
def _copy(low: Lowering, node: Node) -> Value:
    return low.input()
