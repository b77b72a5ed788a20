"""Lower norms and softmax to operator calls."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from edgecore.sdk import NodeQuery, arguments_by_name, rank
from edgecore_vulkan.graph.calls import TensorValue
from edgecore_vulkan.operators.builder import ONLY_FIRST, Builder, Lower, float_row, image_only, is_static, only_first

aten = torch.ops.aten


def _layer_norm(b: Builder, node: Node) -> list[TensorValue]:
    args = arguments_by_name(node)
    sizes = list(args["normalized_shape"])
    x = b.value(node.args[0])
    outputs = [b.result(node, index) for index in range(3)]
    computed = [b.value(args[name]) for name in ("weight", "bias") if _is_computed(b, args[name])]
    weight, bias = (
        _affine(b, None if computed else args[name], number, sizes, x)
        for name, number in (("weight", 1.0), ("bias", 0.0))
    )
    b.call("aten.native_layer_norm.default", [x, sizes, weight, bias, float(args["eps"])], outputs)
    if computed:
        outputs[0] = _scaled(b, outputs[0], args["weight"], args["bias"])
    return outputs


def _is_computed(b: Builder, node: Any) -> bool:
    return node is not None and b.constant_of(node) is None


def _scaled(b: Builder, value: TensorValue, weight: Any, bias: Any) -> TensorValue:
    """Emit the multiplication and addition of a norm whose weight or bias is computed."""
    if weight is not None:
        value = b.call("aten.mul.Tensor", [value, b.value(weight)], value.like())
    if bias is not None:
        value = b.call("aten.add.Tensor", [value, b.value(bias), 1], value.like())
    return value


def _affine(b: Builder, node: Any, number: float, sizes: list[int], like: TensorValue) -> TensorValue:
    return b.constant(torch.full(sizes, number, dtype=like.dtype)) if node is None else b.value(node)


def _only_last_dim(query: NodeQuery) -> str | None:
    sizes = query.argument("normalized_shape")
    if len(sizes) != 1:
        return "normalized over several dims"
    return None if isinstance(sizes[0], int) else "normalized over a symbolic size"


def _constant_affine(query: NodeQuery) -> str | None:
    affine = [query.argument(name) for name in ("weight", "bias")]
    return None if all(node is None or query.is_constant(node) for node in affine) else "weights that are computed"


def _group_norm(b: Builder, node: Node) -> list[TensorValue]:
    args = arguments_by_name(node)
    x = b.value(node.args[0])
    weight, bias = (_affine(b, args[name], number, [args["C"]], x) for name, number in (("weight", 1.0), ("bias", 0.0)))
    outputs = [b.result(node, index) for index in range(3)]
    numbers = [args["N"], args["C"], args["HxW"], args["group"]]
    b.call("aten.native_group_norm.default", [x, weight, bias, *numbers, float(args["eps"])], outputs)
    return outputs


def _check_group_norm(query: NodeQuery) -> str | None:
    if not is_static(query.node.args[0]):
        return "symbolic sizes"
    return image_only(query) or _constant_affine(query)


def _batch_norm(b: Builder, node: Node) -> list[TensorValue]:
    """Emit a batch norm that could not be folded into a convolution, as a multiplication and an addition."""
    args = arguments_by_name(node)
    mean, var = (b.constant_of(args[name]) for name in ("running_mean", "running_var"))
    assert mean is not None and var is not None
    scale = torch.rsqrt(var.double() + args["eps"])
    weight, bias = (b.constant_of(args[name]) for name in ("weight", "bias"))
    scale = scale if weight is None else scale * weight.double()
    shift = -mean.double() * scale if bias is None else bias.double() - mean.double() * scale
    x, output = b.value(node.args[0]), b.result(node, 0)
    sizes = (-1,) + (1,) * (len(x.shape) - 2)
    factors = [b.constant(tensor.to(x.dtype).reshape(sizes)) for tensor in (scale, shift)]
    product = b.call("aten.mul.Tensor", [x, factors[0]], output.like())
    b.call("aten.add.Tensor", [product, factors[1], 1], output)
    return [output]


def _check_batch_norm(query: NodeQuery) -> str | None:
    names = ("running_mean", "running_var", "weight", "bias")
    nodes = [query.argument(name) for name in names]
    if not all(node is None or query.is_constant(node) for node in nodes):
        return "weights that are computed"
    return only_first(query)


def _rms_norm(b: Builder, node: Node) -> TensorValue:
    args = arguments_by_name(node)
    x, output = b.value(node.args[0]), b.result(node)
    weight = _affine(b, args["weight"], 1.0, list(args["normalized_shape"]), x)
    eps = torch.finfo(x.dtype).eps if args["eps"] is None else float(args["eps"])
    b.call("et_vk.rms_norm.default", [x, weight, eps], output)
    return output


def _check_rms_norm(query: NodeQuery) -> str | None:
    weight = query.argument("weight")
    if reason := _only_last_dim(query):
        return reason
    return None if weight is None or query.is_constant(weight) else "weights that are computed"


def _softmax(name: str) -> Lower:
    """Return a function that lowers a softmax to the call `name` (input, dim, half_to_float=False)."""

    def lower(b: Builder, node: Node) -> TensorValue:
        dim = node.args[1] % rank(node)  # type: ignore[operator]
        output: TensorValue = b.call(f"aten.{name}.default", [b.value(node.args[0]), dim, False], b.result(node))
        return output

    return lower


def _check_softmax(query: NodeQuery) -> str | None:
    if not rank(query.node):
        return "a tensor without dims"
    source: Any = query.node.args[0]
    return "it changes the dtype" if source.meta["val"].dtype != query.node.meta["val"].dtype else None


ROWS = [
    float_row(aten.native_layer_norm.default, _layer_norm, "over the last dim", _only_last_dim, keep=True),
    float_row(aten.native_group_norm.default, _group_norm, "4 dims of static size", _check_group_norm, keep=True),
    float_row(aten._native_batch_norm_legit_no_training.default, _batch_norm, ONLY_FIRST, _check_batch_norm),
    float_row(aten.rms_norm.default, _rms_norm, "over the last dim", _check_rms_norm, keep=True),
    float_row(aten._softmax.default, _softmax("_softmax"), check=_check_softmax, keep=True),
    float_row(aten.softmax.int, _softmax("_softmax"), check=_check_softmax, keep=True),
    float_row(aten._log_softmax.default, _softmax("_log_softmax"), check=_check_softmax, keep=True),
    float_row(aten.log_softmax.int, _softmax("_log_softmax"), check=_check_softmax, keep=True),
]
