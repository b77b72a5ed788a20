"""Lower elementwise operators, comparisons and reductions to ONNX."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from edgecore.sdk import Constraint, NodeQuery, arguments_by_name, axes
from edgecore_qnn.operators.builder import Build, Builder, Row
from edgecore_qnn.operators.quantized import CLAMPS, is_free, limits, own_scale, result_scale

aten = torch.ops.aten
F32, BOOL = (torch.float32,), (torch.bool,)
F32_OR_BOOL = (torch.float32, torch.bool)
_SATURATED = 10.0
"""A number whose tanh rounds to 1 in fp16."""
_GELU = {"none": (0.8001429970, 0.0347073059), "tanh": (math.sqrt(2 / math.pi), 0.044715 * math.sqrt(2 / math.pi))}
"""Factors of x and x ** 3 in gelu's tanh. For the exact gelu, the error is 2.7e-4, half a step of fp16 at 1."""
_TURN = (6.0, 0.25, 0.03125, 2 * math.pi - 6.28125)
"""Summands of 2 pi. Products of the first three with up to 325 turns (angles up to 2048) are exact in fp16."""


def _unary(op_type: str, **attributes: Any) -> Build:
    return lambda b, node: b.add(op_type, b.value(node.args[0]), **attributes)


def _binary(op_type: str) -> Build:
    """Return a lowering function for two tensors, or a tensor and a number; `alpha` multiplies the second operand."""

    def build(b: Builder, node: Node) -> Any:
        args, (left, right) = arguments_by_name(node), node.args[:2]
        first, second = _operands(b, left, right, result_scale(node) is not None)
        if (alpha := args.get("alpha", 1)) != 1:
            second = b.add("Mul", second, b.number(float(alpha), second))
        return b.add(op_type, first, second)

    return build


def _operands(b: Builder, left: Any, right: Any, is_quantized: bool = True) -> tuple[str, str]:
    """Return the names of two operands; a constant or number is quantized like the computed operand.

    With `is_quantized=False` the constant stays floating-point. Masks need this, because a scale that covers a mask's
    numbers is too coarse for scores.
    """
    if isinstance(left, Node) and left not in b.partition.constants:
        first = b.value(left)
        return first, b.value(right, first if is_quantized else "")
    second = b.value(right)
    return b.value(left, second if is_quantized else ""), second


def _alpha(query: NodeQuery) -> str | None:
    alpha = query.argument("alpha")
    return None if alpha == 1 or not _is_quantized(query.node.args[1]) else f"alpha is {alpha} in a quantized sum"


def _is_quantized(node: Any) -> bool:
    return isinstance(node, Node) and "dequantize" in str(node.target)


def _rsub(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    value = b.value(args["self"] if "self" in args else node.args[0])
    if args["alpha"] != 1:
        value = b.add("Mul", value, b.number(float(args["alpha"]), value))
    return b.add("Sub", b.number(float(args["other"]), value), value)


def _clamp(b: Builder, node: Node) -> Any:
    value = b.value(node.args[0])
    if is_free(node):
        return value
    scale = result_scale(node)
    if scale is not None and value not in b.scales:
        value = b.requantize(value, own_scale(node, scale) or scale)
    low, high = limits(node)
    if (low, high) == (0.0, math.inf):
        return b.add("Relu", value)
    ends = ["" if math.isinf(end) else b.array(end, np.float32) for end in (low, high)]
    return b.add("Clip", value, *ends)


def _finite(query: NodeQuery) -> str | None:
    low, high = limits(query.node)
    return "the minimum is above the maximum" if low > high else None


def _tanh_of(b: Builder, value: str) -> Any:
    """Return tanh of a floating-point value.

    The provider fuses a tanh or sigmoid with the layer before. This raises the fp16 error from at most 0.2% to 0.7% for
    tanh, and to 0.4% for sigmoid. A Clip between layer and tanh prevents the fusion without changing a result, because
    tanh(x) is 1 for x >= 5 in fp16.
    """
    ends = (b.array(end, np.float32) for end in (-_SATURATED, _SATURATED))
    return b.add("Tanh", b.add("Clip", value, *ends))


def _tanh(b: Builder, node: Node) -> Any:
    value = b.value(node.args[0])
    return b.add("Tanh", value) if value in b.scales else _tanh_of(b, value)


def _periodic(op_type: str) -> Build:
    """Return a lowering function of a sine or cosine. Unless quantized, the angle is first reduced to [-pi, pi].

    The NPU's operator reduces an angle with only 16 bits: its error is 0.04 for angles of 32, and 1 for angles of 1000.
    """

    def build(b: Builder, node: Node) -> Any:
        angle = b.value(node.args[0])
        if angle not in b.scales:
            turns = b.add("Round", b.add("Mul", angle, b.number(1 / (2 * math.pi))))
            for part in _TURN:
                angle = b.add("Sub", angle, b.add("Mul", turns, b.number(part)))
        return b.add(op_type, angle)

    return build


def _sigmoid(b: Builder, node: Node) -> Any:
    """Return sigmoid(x); unless x is quantized, as (1 - tanh(-x / 2)) / 2, as the NPU's sigmoid is less exact in fp16.

    The result of this formula is never negative.
    """
    value = b.value(node.args[0])
    if value in b.scales:
        return b.add("Sigmoid", value)
    half = b.number(0.5)
    return b.add("Sub", half, b.add("Mul", _tanh_of(b, b.add("Mul", value, b.number(-0.5))), half))


def _silu(b: Builder, node: Node) -> Any:
    value = b.value(node.args[0])
    if value in b.scales:
        return b.add("Mul", value, b.between(b.add("Sigmoid", value), 0.0, 1.0, value))
    value = b.add("Mul", value, b.number(0.5))
    return b.add("Add", b.add("Mul", value, _tanh_of(b, value)), value)


def _gelu(b: Builder, node: Node) -> Any:
    """Return x / 2 * (1 + tanh(x * (c + d * x ** 2))) unless quantized, because the NPU's gelu is less exact."""
    value, mode = b.value(node.args[0]), arguments_by_name(node)["approximate"]
    if value in b.scales:
        return b.add("Gelu", value, approximate=mode)
    linear, cubic = _GELU[mode]
    inner = b.add("Add", b.add("Mul", b.add("Mul", value, value), b.number(cubic)), b.number(linear))
    tanh = _tanh_of(b, b.add("Mul", value, inner))
    value = b.add("Mul", value, b.number(0.5))
    return b.add("Add", b.add("Mul", value, tanh), value)


def _exact_gelu(query: NodeQuery) -> str | None:
    mode = query.argument("approximate")
    if mode == "none" or not _is_quantized(query.node.args[0]):
        return None
    return f"approximate is {mode!r}, and the NPU computes the exact function of integers"


def _elu(b: Builder, node: Node) -> Any:
    return b.add("Elu", b.value(node.args[0]), alpha=float(arguments_by_name(node)["alpha"]))


def _elu_scales(query: NodeQuery) -> str | None:
    return None if query.argument("scale") == query.argument("input_scale") == 1 else "scale or input_scale is not 1"


def _leaky_relu(b: Builder, node: Node) -> Any:
    return b.add("LeakyRelu", b.value(node.args[0]), alpha=float(arguments_by_name(node)["negative_slope"]))


def _reciprocal(b: Builder, node: Node) -> Any:
    value = b.value(node.args[0])
    return b.add("Div", b.number(1.0, value), value)


def _rsqrt(b: Builder, node: Node) -> Any:
    value = b.value(node.args[0])
    return b.add("Div", b.number(1.0, value), b.add("Sqrt", value))


def _square(b: Builder, node: Node) -> Any:
    value = b.value(node.args[0])
    return b.add("Mul", value, value)


def _not_equal(b: Builder, node: Node) -> Any:
    return b.add("Not", b.add("Equal", *_operands(b, node.args[0], node.args[1])))


def _compare(op_type: str) -> Build:
    return lambda b, node: b.add(op_type, *_operands(b, node.args[0], node.args[1]))


def _logical(op_type: str) -> Build:
    return lambda b, node: b.add(op_type, *map(b.value, node.args))


def _where(b: Builder, node: Node) -> Any:
    condition, left, right = node.args
    first, second = _operands(b, left, right, result_scale(node) is not None)
    return b.add("Where", b.value(condition), first, second)


def _reduce(op_type: str) -> Build:
    def build(b: Builder, node: Node) -> Any:
        args, source = arguments_by_name(node), node.args[0]
        dims = args.get("dim")
        reduced = axes([dims] if isinstance(dims, int) else dims, source)
        keep = int(bool(args.get("keepdim", False)))
        return b.add(op_type, b.value(source), b.ints(reduced), keepdims=keep)

    return build


def _of_floats(query: NodeQuery) -> str | None:
    other = next((source for source in query.node.all_input_nodes if source.meta["val"].dtype != torch.float32), None)
    return None if other is None else f"input {other.name} is not float32"


def _scalar(query: NodeQuery) -> str | None:
    source = query.node.args[0]
    assert isinstance(source, Node)
    return None if source.meta["val"].dim() else "a tensor without dims"


def _row(
    target: Any,
    dtypes: tuple[torch.dtype, ...],
    build: Build,
    constraints: str = "",
    check: Constraint | None = None,
    do_not_decompose: bool = False,
) -> Row:
    return Row(target, dtypes, constraints, check, do_not_decompose, lower=build)


_UNARY = {
    aten.exp: "Exp", aten.log: "Log", aten.sqrt: "Sqrt", aten.neg: "Neg",
    aten.abs: "Abs", aten.floor: "Floor", aten.ceil: "Ceil", aten.round: "Round",
    aten.sign: "Sign", aten.atan: "Atan",
}  # fmt: skip
_COMPARE = {
    aten.eq: "Equal", aten.gt: "Greater", aten.ge: "GreaterOrEqual", aten.lt: "Less", aten.le: "LessOrEqual",
}  # fmt: skip
_KINDS = ("Tensor", "Scalar")

ROWS = [
    *(_row(operator.default, F32, _unary(op_type)) for operator, op_type in _UNARY.items()),
    _row(aten.sin.default, F32, _periodic("Sin")),
    _row(aten.cos.default, F32, _periodic("Cos")),
    _row(aten.sigmoid.default, F32, _sigmoid),
    _row(aten.tanh.default, F32, _tanh),
    *(_row(getattr(operator, kind), F32, _binary(op_type), "alpha must be 1 if quantized", _alpha)
      for operator, op_type in ((aten.add, "Add"), (aten.sub, "Sub")) for kind in _KINDS),
    *(_row(getattr(operator, kind), F32, _binary(op_type))
      for operator, op_type in ((aten.mul, "Mul"), (aten.div, "Div")) for kind in _KINDS),
    *(_row(getattr(operator, kind), F32_OR_BOOL, _compare(op_type), "float32 inputs", _of_floats)
      for operator, op_type in _COMPARE.items() for kind in _KINDS),
    *(_row(getattr(aten.ne, kind), F32_OR_BOOL, _not_equal, "float32 inputs", _of_floats) for kind in _KINDS),
    *(_row(target, F32, _clamp, check=_finite) for target in CLAMPS),
    _row(aten.maximum.default, F32, _binary("Max")),
    _row(aten.minimum.default, F32, _binary("Min")),
    _row(aten.pow.Tensor_Scalar, F32, _binary("Pow")),
    _row(aten.pow.Tensor_Tensor, F32, _binary("Pow")),
    _row(aten.rsub.Scalar, F32, _rsub),
    _row(aten.hardsigmoid.default, F32, _unary("HardSigmoid", alpha=1 / 6, beta=0.5), do_not_decompose=True),
    _row(aten.hardswish.default, F32, _unary("HardSwish"), do_not_decompose=True),
    _row(aten.gelu.default, F32, _gelu, "approximate must be none if quantized", _exact_gelu, do_not_decompose=True),
    _row(aten.silu.default, F32, _silu, do_not_decompose=True),
    _row(aten.elu.default, F32, _elu, "scale and input_scale must be 1", _elu_scales, do_not_decompose=True),
    _row(aten.leaky_relu.default, F32, _leaky_relu, do_not_decompose=True),
    _row(aten._prelu_kernel.default, F32, _binary("PRelu")),
    _row(aten.reciprocal.default, F32, _reciprocal),
    _row(aten.rsqrt.default, F32, _rsqrt),
    _row(aten.square.default, F32, _square),
    _row(aten.logical_not.default, BOOL, _logical("Not")),
    _row(aten.logical_and.default, BOOL, _logical("And")),
    _row(aten.logical_or.default, BOOL, _logical("Or")),
    _row(aten.where.self, F32_OR_BOOL, _where, "float32 values"),
    _row(aten.mean.dim, F32, _reduce("ReduceMean"), check=_scalar),
    _row(aten.sum.dim_IntList, F32, _reduce("ReduceSum"), check=_scalar),
    _row(aten.amax.default, F32, _reduce("ReduceMax"), check=_scalar),
    _row(aten.amin.default, F32, _reduce("ReduceMin"), check=_scalar),
]  # fmt: skip
