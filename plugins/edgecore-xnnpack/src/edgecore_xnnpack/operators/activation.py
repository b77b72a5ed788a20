"""Activation functions, each as one XNNPACK node or composed of several."""

from __future__ import annotations

from math import inf, isfinite, pi, sqrt

import torch
from torch.fx import Node

from edgecore_xnnpack.graph.lower import Lowering
from edgecore_xnnpack.graph.subgraph import LAST, SAME_LAYOUT, SubgraphValue
from edgecore_xnnpack.operator_table import Query, lowers
from edgecore_xnnpack.operators.elementwise import binary, check_limits, clamped, unary
from edgecore_xnnpack.operators.shape import slice_of
from edgecore_xnnpack.schema import graph as g

aten = torch.ops.aten


def _times(low: Lowering, value: SubgraphValue, factor: float) -> SubgraphValue:
    return value if factor == 1 else binary(low, g.Multiply, value, low.scalar(factor))


@lowers(aten.gelu.default, do_not_decompose=True)
def _gelu(low: Lowering, node: Node) -> SubgraphValue:
    """Emit XNNPACK's exact gelu, or for `approximate="tanh"` x * sigmoid(2 * sqrt(2 / pi) * (x + 0.044715 * x^3)).

    The second formula equals PyTorch's x * 0.5 * (1 + tanh(y)), because 0.5 * (1 + tanh(y)) = sigmoid(2 * y).
    """
    value = low.input()
    if low.argument("approximate") == "none":
        return unary(low, g.Gelu, value)
    factor = 2 * sqrt(2 / pi)
    inner = binary(low, g.Add, _times(low, unary(low, g.Square, value), 0.044715 * factor), low.scalar(factor))
    return binary(low, g.Multiply, value, unary(low, g.Sigmoid, binary(low, g.Multiply, inner, value)))


@lowers(aten.silu.default, do_not_decompose=True)
def _silu(low: Lowering, node: Node) -> SubgraphValue:
    return binary(low, g.Multiply, low.input(), unary(low, g.Sigmoid, low.input()))


@lowers(aten.hardsigmoid.default, do_not_decompose=True)
def _hardsigmoid(low: Lowering, node: Node) -> SubgraphValue:
    shifted = binary(low, g.Add, low.input(), low.scalar(3.0), clamp=(0.0, 6.0))
    return binary(low, g.Multiply, shifted, low.scalar(1 / 6))


@lowers(aten.relu.default)
def _relu(low: Lowering, node: Node) -> SubgraphValue:
    return clamped(low, low.input(), 0.0, inf)


@lowers(aten.relu6.default, do_not_decompose=True)
def _relu6(low: Lowering, node: Node) -> SubgraphValue:
    return clamped(low, low.input(), 0.0, 6.0)


@lowers(aten.hardtanh.default, check=check_limits, constraints="limits are numbers")
def _hardtanh(low: Lowering, node: Node) -> SubgraphValue:
    return clamped(low, low.input(), float(low.argument("min_val")), float(low.argument("max_val")))


def _check_elu(query: Query) -> str | None:
    if not 0 < query.argument("alpha") < inf:
        return f"alpha {query.argument('alpha')}"
    return None if query.node.target is aten.celu.default or query.argument("input_scale") == 1 else "input_scale"


@lowers(aten.elu.default, check=_check_elu, constraints="finite alpha above 0, input_scale 1", do_not_decompose=True)
def _elu(low: Lowering, node: Node) -> SubgraphValue:
    result = unary(low, g.ELU, low.input(), alpha=float(low.argument("alpha")))
    return _times(low, result, float(low.argument("scale")))


@lowers(aten.celu.default, check=_check_elu, constraints="finite alpha above 0", do_not_decompose=True)
def _celu(low: Lowering, node: Node) -> SubgraphValue:
    alpha = float(low.argument("alpha"))
    return _times(low, unary(low, g.ELU, _times(low, low.input(), 1 / alpha), alpha=1.0), alpha)


def _check_slope(query: Query) -> str | None:
    slope = query.argument("negative_slope")
    return None if isfinite(slope) else f"slope {slope}"


@lowers(aten.leaky_relu.default, check=_check_slope, constraints="finite slope", do_not_decompose=True)
def _leaky_relu(low: Lowering, node: Node) -> SubgraphValue:
    return unary(low, g.LeakyReLU, low.input(), negative_slope=float(low.argument("negative_slope")))


def _check_prelu(query: Query) -> str | None:
    if not query.is_constant(query.argument("weight")):
        return "weight not constant"
    rank, weight = len(query.shape), query.argument("weight").meta["val"]
    if weight.numel() == 1:
        return None
    if rank not in (2, 3, 4):
        return f"rank {rank}"
    # The weight of _prelu_kernel has a shape that broadcasts against the input. The weight of prelu is a vector with a
    # slope per channel: add dims of size 1, [C] -> [C, 1, 1] for an input [N, C, H, W], so that it broadcasts too.
    shape = weight.shape if query.node.target is aten._prelu_kernel.default else (*weight.shape, *[1] * (rank - 2))
    per_channel = (query.shape[1], *[1] * (rank - 2))
    return None if tuple(shape) in (per_channel, (1, *per_channel)) else f"a weight of shape {list(weight.shape)}"


@lowers(aten.prelu.default, aten._prelu_kernel.default, check=_check_prelu, do_not_decompose=True,
        constraints="constant weight; one slope, or one per channel of rank 2 to 4")  # fmt: skip
def _prelu(low: Lowering, node: Node) -> SubgraphValue:
    slope = low.array(low.argument("weight"))
    assert slope is not None
    value = low.input()
    if slope.size == 1:
        return unary(low, g.LeakyReLU, value, negative_slope=float(slope.reshape(-1)[0]))
    image = low.reshape(value, (*value.shape, 1)) if len(value.shape) == 3 else value
    rule = LAST if len(image.shape) == 4 else SAME_LAYOUT
    result = low.emit(g.PReLU, [image, low.constant(slope.reshape(-1))], image.shape, rule)
    return low.reshape(result, value.shape)


def softplus(low: Lowering, value: SubgraphValue) -> SubgraphValue:
    """Emit log(1 + e^x) as max(x, 0) + log(1 + e^-|x|): the exponential is at most 1 and cannot overflow."""
    small = unary(low, g.Exp, unary(low, g.Negate, unary(low, g.Abs, value)))
    rest = unary(low, g.Log, binary(low, g.Add, small, low.scalar(1.0)))
    return binary(low, g.Add, clamped(low, value, 0.0, inf), rest)


_MIN_THRESHOLD = 15
"""The smallest threshold of a softplus that is supported.

PyTorch returns x instead of softplus(x) if beta * x is above the threshold; the lowering ignores the threshold. With
beta = 1, this makes no difference for x of 15 or more: softplus(x) - x is 3e-7 or less, under half a unit in the last
place of x (4.8e-7). Another beta scales the difference and x alike.
"""


def _check_softplus(query: Query) -> str | None:
    if not 0 < query.argument("beta") < inf:
        return f"beta {query.argument('beta')}"
    threshold = query.argument("threshold")
    return None if threshold >= _MIN_THRESHOLD else f"threshold {threshold}, below {_MIN_THRESHOLD}"


@lowers(
    aten.softplus.default,
    check=_check_softplus,
    constraints=f"threshold of at least {_MIN_THRESHOLD}",
    do_not_decompose=True,
)
def _softplus(low: Lowering, node: Node) -> SubgraphValue:
    beta = float(low.argument("beta"))
    return _times(low, softplus(low, _times(low, low.input(), beta)), 1 / beta)


@lowers(aten.mish.default, do_not_decompose=True)
def _mish(low: Lowering, node: Node) -> SubgraphValue:
    return binary(low, g.Multiply, low.input(), unary(low, g.Tanh, softplus(low, low.input())))


@lowers(aten.log_sigmoid.default, do_not_decompose=True)
def _log_sigmoid(low: Lowering, node: Node) -> SubgraphValue:
    return unary(low, g.Negate, softplus(low, unary(low, g.Negate, low.input())))


def _check_softshrink(query: Query) -> str | None:
    return None if query.argument("lambd") > 0 else f"lambd {query.argument('lambd')}"


@lowers(aten.softshrink.default, check=_check_softshrink, constraints="lambd above 0", do_not_decompose=True)
def _softshrink(low: Lowering, node: Node) -> SubgraphValue:
    limit = float(low.argument("lambd"))
    return binary(low, g.Subtract, low.input(), clamped(low, low.input(), -limit, limit))


@lowers(aten.glu.default)
def _glu(low: Lowering, node: Node) -> SubgraphValue:
    """Emit first * sigmoid(second), where `first` and `second` are the two halves of the input along `dim`."""
    value = low.input()
    dim = int(low.argument("dim")) % len(value.shape)
    half = value.shape[dim] // 2
    gate = unary(low, g.Sigmoid, slice_of(low, value, dim, half, half))
    return binary(low, g.Multiply, slice_of(low, value, dim, 0, half), gate)
