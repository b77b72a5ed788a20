"""Lower elementwise operators, comparisons and reductions to OpenVINO."""

from __future__ import annotations

from typing import Any

import torch
from openvino import opset15 as ops
from torch.fx import Node

from edgecore.sdk import Constraint, NodeQuery, arguments_by_name, axes
from edgecore_openvino.operators.builder import FLOATS, Build, Builder, Row, ints, number

aten = torch.ops.aten
BOOL = (torch.bool,)
FLOAT_OR_BOOL = (*FLOATS, torch.bool)


def _unary(function: Any, *constants: float) -> Build:
    """Return a lowering function that calls a function of `openvino.opset15` with a tensor and `constants`."""

    def build(b: Builder, node: Node) -> Any:
        return function(b.value(node.args[0]), *map(number, constants))

    return build


def _binary(function: Any) -> Build:
    """Return a lowering function for two tensors, or a tensor and a number; `alpha` multiplies the second operand."""

    def build(b: Builder, node: Node) -> Any:
        args, (left, right) = arguments_by_name(node), node.args[:2]
        like: Any = left if isinstance(left, Node) else right
        second = b.value(right, like)
        if (alpha := args.get("alpha", 1)) != 1:
            second = ops.multiply(second, b.value(alpha, like))
        return function(b.value(left, like), second)

    return build


def _rsub(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    scaled = ops.multiply(b.value(node.args[0]), number(args["alpha"]))
    return ops.subtract(number(args["other"]), scaled)


def _clamp(b: Builder, node: Node) -> Any:
    args, value = arguments_by_name(node), b.value(node.args[0])
    low, high = (args.get(new, args.get(old)) for new, old in (("min", "min_val"), ("max", "max_val")))
    if low is not None:
        value = ops.maximum(value, number(low))
    return value if high is None else ops.minimum(value, number(high))


def _hardtanh(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    return ops.clamp(b.value(node.args[0]), float(args["min_val"]), float(args["max_val"]))


def _gelu(b: Builder, node: Node) -> Any:
    mode = arguments_by_name(node)["approximate"]
    return ops.gelu(b.value(node.args[0]), "erf" if mode == "none" else mode)


def _elu(b: Builder, node: Node) -> Any:
    args, x = arguments_by_name(node), b.value(node.args[0])
    return ops.elu(x, float(args["alpha"]))


def _elu_scales(query: NodeQuery) -> str | None:
    return None if query.argument("scale") == query.argument("input_scale") == 1 else "scale or input_scale is not 1"


def _leaky_relu(b: Builder, node: Node) -> Any:
    return ops.prelu(b.value(node.args[0]), number(arguments_by_name(node)["negative_slope"]))


def _silu(b: Builder, node: Node) -> Any:
    return ops.swish(b.value(node.args[0]))


def _reciprocal(b: Builder, node: Node) -> Any:
    return ops.divide(number(1), b.value(node.args[0]))


def _rsqrt(b: Builder, node: Node) -> Any:
    return ops.divide(number(1), ops.sqrt(b.value(node.args[0])))


def _logical(function: Any) -> Build:
    def build(b: Builder, node: Node) -> Any:
        return function(*(b.value(source) for source in node.args))

    return build


def _where(b: Builder, node: Node) -> Any:
    condition, left, right = (b.value(source) for source in node.args)
    return ops.select(condition, left, right)


def _full_like(b: Builder, node: Node) -> Any:
    source = node.args[0]
    return ops.broadcast(b.value(node.args[1], node), ops.shape_of(b.value(source)))


def _cast(b: Builder, node: Node) -> Any:
    """Lower a cast: a cast to float16 rounds, but its result is float32, like all floats in the OpenVINO model."""
    value = b.value(node.args[0])
    return ops.convert(ops.convert(value, "f16"), "f32") if node.meta["val"].dtype == torch.float16 else value


def _reduce(function: Any) -> Build:
    def build(b: Builder, node: Node) -> Any:
        args, source = arguments_by_name(node), node.args[0]
        dims = args.get("dim")
        reduced = axes([dims] if isinstance(dims, int) else dims, source)
        return function(b.value(source), ints(reduced), bool(args.get("keepdim", False)))

    return build


def _of_floats(query: NodeQuery) -> str | None:
    other = next((source for source in query.node.all_input_nodes if source.meta["val"].dtype not in FLOATS), None)
    return None if other is None else f"input {other.name} is not float32 or float16"


def _scalar(query: NodeQuery) -> str | None:
    source = query.node.args[0]
    assert isinstance(source, Node)
    return None if source.meta["val"].dim() else "a tensor without dims"


def _row(
    target: Any, dtypes: tuple[torch.dtype, ...], build: Build, constraints: str = "", check: Constraint | None = None
) -> Row:
    return Row(target, dtypes, constraints, check, lower=build)


_UNARY = {
    aten.relu: ops.relu, aten.sigmoid: ops.sigmoid, aten.tanh: ops.tanh, aten.exp: ops.exp, aten.log: ops.log,
    aten.sqrt: ops.sqrt, aten.neg: ops.negative, aten.abs: ops.absolute, aten.sin: ops.sin, aten.cos: ops.cos,
    aten.erf: ops.erf, aten.floor: ops.floor, aten.ceil: ops.ceiling,
    aten.hardswish: ops.hswish,
}  # fmt: skip
_BINARY = {
    aten.add: ops.add, aten.sub: ops.subtract, aten.mul: ops.multiply,
}  # fmt: skip
_COMPARE = {
    aten.eq: ops.equal, aten.ne: ops.not_equal, aten.gt: ops.greater, aten.ge: ops.greater_equal, aten.lt: ops.less,
    aten.le: ops.less_equal,
}  # fmt: skip

ROWS = [
    *(_row(operator.default, FLOATS, _unary(function)) for operator, function in _UNARY.items()),
    *(_row(getattr(operator, kind), FLOATS, _binary(function)) for operator, function in _BINARY.items()
      for kind in ("Tensor", "Scalar")),
    *(_row(getattr(operator, kind), FLOAT_OR_BOOL, _binary(function), "floating-point inputs", _of_floats)
      for operator, function in _COMPARE.items() for kind in ("Tensor", "Scalar")),
    _row(aten.div.Tensor, FLOATS, _binary(ops.divide)),
    _row(aten.div.Scalar, FLOATS, _binary(ops.divide)),
    _row(aten.maximum.default, FLOATS, _binary(ops.maximum)),
    _row(aten.minimum.default, FLOATS, _binary(ops.minimum)),
    _row(aten.pow.Tensor_Scalar, FLOATS, _binary(ops.power)),
    _row(aten.pow.Tensor_Tensor, FLOATS, _binary(ops.power)),
    _row(aten.rsub.Scalar, FLOATS, _rsub),
    _row(aten.clamp.default, FLOATS, _clamp),
    _row(aten.hardtanh.default, FLOATS, _hardtanh),
    _row(aten.hardsigmoid.default, FLOATS, _unary(ops.hard_sigmoid, 1 / 6, 0.5)),
    _row(aten.gelu.default, FLOATS, _gelu),
    _row(aten.silu.default, FLOATS, _silu),
    _row(aten.elu.default, FLOATS, _elu, "scale and input_scale must be 1", _elu_scales),
    _row(aten.leaky_relu.default, FLOATS, _leaky_relu),
    _row(aten.reciprocal.default, FLOATS, _reciprocal),
    _row(aten.rsqrt.default, FLOATS, _rsqrt),
    _row(aten.round.default, FLOATS, lambda b, node: ops.round(b.value(node.args[0]), "HALF_TO_EVEN")),
    _row(aten.square.default, FLOATS, lambda b, node: ops.multiply(b.value(node.args[0]), b.value(node.args[0]))),
    _row(aten.relu6.default, FLOATS, lambda b, node: ops.clamp(b.value(node.args[0]), 0.0, 6.0)),
    _row(aten._prelu_kernel.default, FLOATS, lambda b, node: ops.prelu(*map(b.value, node.args))),
    _row(aten.mish.default, FLOATS, _unary(ops.mish)),
    _row(aten.logical_not.default, BOOL, _logical(ops.logical_not)),
    _row(aten.logical_and.default, BOOL, _logical(ops.logical_and)),
    _row(aten.logical_or.default, BOOL, _logical(ops.logical_or)),
    _row(aten.where.self, FLOAT_OR_BOOL, _where, "floating-point values"),
    _row(aten._to_copy.default, FLOATS, _cast),
    _row(aten.full_like.default, FLOATS, _full_like),
    _row(aten.mean.dim, FLOATS, _reduce(ops.reduce_mean), check=_scalar),
    _row(aten.sum.dim_IntList, FLOATS, _reduce(ops.reduce_sum), check=_scalar),
    _row(aten.amax.default, FLOATS, _reduce(ops.reduce_max), check=_scalar),
    _row(aten.amin.default, FLOATS, _reduce(ops.reduce_min), check=_scalar),
    _row(aten.any.dim, BOOL, _reduce(ops.reduce_logical_or), check=_scalar),
]  # fmt: skip
