"""Lower convolutions, matmuls, pooling, norms, softmax and attention to OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from openvino import opset15 as ops
from torch.fx import Node

from edgecore.sdk import (
    Constraint,
    NodeQuery,
    arguments_by_name,
    for_each,
    has_hidden_rows,
    rank,
    reaches_past_padding,
    shape,
)
from edgecore_openvino.operators.builder import FLOATS, LARGEST, Build, Builder, Row, ints, number

aten = torch.ops.aten


def _convolution(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    count = rank(node) - 2
    stride, pads, dilation = (for_each(args[key], count) for key in ("stride", "padding", "dilation"))
    x, weight, groups = b.value(args["input"]), b.value(args["weight"]), args["groups"]
    if groups > 1:
        sizes = shape(args["weight"])
        weight = ops.reshape(weight, ints([groups, sizes[0] // groups, *sizes[1:]]), special_zero=False)
    if args["transposed"]:
        function = ops.group_convolution_backprop_data if groups > 1 else ops.convolution_backprop_data
        result = function(
            x, weight, strides=stride, pads_begin=pads, pads_end=pads, dilations=dilation,
            output_padding=for_each(args["output_padding"], count),
        )  # fmt: skip
    else:
        function = ops.group_convolution if groups > 1 else ops.convolution
        result = function(x, weight, stride, pads, pads, dilation)
    if args["bias"] is not None:
        bias = ops.reshape(b.value(args["bias"]), ints([1, -1] + [1] * count), special_zero=False)
        result = ops.add(result, bias)
    return result


def _spatial(query: NodeQuery) -> str | None:
    count = rank(query.node) - 2
    return None if 1 <= count <= 3 else f"{count} spatial dims"


def _linear(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    product = ops.matmul(b.value(args["input"]), b.value(args["weight"]), False, True)
    return product if args["bias"] is None else ops.add(product, b.value(args["bias"]))


def _addmm(b: Builder, node: Node) -> Any:
    bias, left, right = (b.value(source) for source in node.args[:3])
    return ops.add(ops.matmul(left, right, False, False), bias)


def _check_addmm(query: NodeQuery) -> str | None:
    return None if query.argument("alpha") == query.argument("beta") == 1 else "alpha or beta is not 1"


def _matmul(b: Builder, node: Node) -> Any:
    return ops.matmul(b.value(node.args[0]), b.value(node.args[1]), False, False)


def _attention(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    query, key, value = (b.value(args[name]) for name in ("query", "key", "value"))
    mask = None if args["attn_mask"] is None else _mask(b, args["attn_mask"])
    scale = None if args["scale"] is None else number(args["scale"])
    if scale is not None and mask is None:  # OpenVINO's attention accepts a scale only together with a mask
        mask = number(0)
    result = ops.scaled_dot_product_attention(query, key, value, mask, scale, args["is_causal"])
    return result if args["attn_mask"] is None else _without_masked_rows(b, args["attn_mask"], result)


def _mask(b: Builder, node: Node) -> Any:
    """Clamp an attention mask, so that scores + mask stays finite in the model's precision."""
    mask = b.value(node)
    if node.meta["val"].dtype == torch.bool or b.precision == "f32":
        return mask
    return b.in_float32(ops.maximum(mask, number(-LARGEST[b.precision])))


def _without_masked_rows(b: Builder, mask: Node, result: Any) -> Any:
    """Set the result to zero for queries whose mask hides all keys, as PyTorch does; OpenVINO computes 0 / 0 there.

    If a constant mask leaves each query a visible key, no operators are added.
    """
    constant = b.partition.constants.get(mask)
    if constant is not None and not has_hidden_rows(constant):
        return result
    is_bool = mask.meta["val"].dtype == torch.bool
    visible = b.value(mask) if is_bool else b.in_float32(ops.not_equal(b.value(mask), number(-np.inf)))
    return ops.select(ops.reduce_logical_or(visible, ints([-1]), keep_dims=True), result, number(0))


def _check_attention(query: NodeQuery) -> str | None:
    if query.argument("dropout_p") or query.argument("enable_gqa"):
        return "dropout_p or enable_gqa is not supported"
    if query.argument("is_causal") and query.argument("scale") is not None:
        return "is_causal together with scale is not supported"
    return (
        None if all(rank(query.argument(name)) == 4 for name in ("query", "key", "value")) else "tensors without 4 dims"
    )


def _max_pool(b: Builder, node: Node) -> Any:
    args, count = arguments_by_name(node), 2
    kernel = for_each(args["kernel_size"], count)
    stride = for_each(args["stride"] or kernel, count)
    pads, dilation = for_each(args["padding"], count), for_each(args["dilation"], count)
    rounding = "ceil_torch" if args["ceil_mode"] else "floor"
    pooled = ops.max_pool(b.value(node.args[0]), stride, dilation, pads, pads, kernel, rounding)
    return [pooled.output(0)]


def _max_pool_without_indices(b: Builder, node: Node) -> Any:
    return _max_pool(b, node)[0]


def _avg_pool(b: Builder, node: Node) -> Any:
    args, count = arguments_by_name(node), 2
    kernel = for_each(args["kernel_size"], count)
    stride, pads = for_each(args["stride"] or kernel, count), for_each(args["padding"], count)
    rounding = "ceil_torch" if args["ceil_mode"] else "floor"
    return ops.avg_pool(
        b.value(node.args[0]), stride, pads, pads, kernel, not args["count_include_pad"], rounding, "explicit"
    )


def _check_avg_pool(query: NodeQuery) -> str | None:
    if query.argument("divisor_override") is not None:
        return "divisor_override is not supported"
    counts_padding = query.argument("count_include_pad") and any(query.argument("padding"))
    if counts_padding and reaches_past_padding(query.node):
        return "ceil_mode, and windows that reach past padding that counts: OpenVINO divides them by the whole kernel"
    return _image(query)


def _image(query: NodeQuery) -> str | None:
    source: Any = query.node.args[0]
    return None if rank(source) == 4 else f"{rank(source)} dims instead of 4"


def _adaptive(b: Builder, node: Node) -> Any:
    source: Any = node.args[0]
    return ops.adaptive_avg_pool(b.value(source), ints(shape(node)[2:]))


def _only_first(query: NodeQuery) -> str | None:
    """Refuse an fx node if any result except the first is read, because only the first is computed."""
    for user in query.node.users:
        if user.args[1] != 0 and user.users:
            return f"result {user.args[1]} is read, but only result 0 is supported"
    return None


def _check_max_pool(query: NodeQuery) -> str | None:
    return _only_first(query) or _check_max_image(query)


def _check_max_image(query: NodeQuery) -> str | None:
    if reason := _image(query):
        return reason
    sizes = query.argument("self").meta["val"].shape[2:]
    kernel, padding, dilation = (for_each(query.argument(name), 2) for name in ("kernel_size", "padding", "dilation"))
    # With `ceil_mode`, PyTorch allows a window that is larger than the padded image: refuse it.
    for d, size in enumerate(sizes):
        if isinstance(size, int) and dilation[d] * (kernel[d] - 1) + 1 > size + 2 * padding[d]:
            return "a window that is larger than the image with its padding"
    return None


def _layer_norm(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    count = len(args["normalized_shape"])
    value = ops.mvn(b.value(node.args[0]), ints(range(-count, 0)), True, float(args["eps"]), "inside_sqrt")
    if args["weight"] is not None:
        value = ops.multiply(value, b.value(args["weight"]))
    return [value if args["bias"] is None else ops.add(value, b.value(args["bias"]))]


def _group_norm(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    channels = args["C"]
    weight = number(1) if args["weight"] is None else b.value(args["weight"])
    bias = number(0) if args["bias"] is None else b.value(args["bias"])
    scale, shift = (ops.broadcast(value, ints([channels])) for value in (weight, bias))
    return [ops.group_normalization(b.value(node.args[0]), scale, shift, args["group"], float(args["eps"]))]


def _batch_norm(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    channels = ints([shape(node.args[0])[1]])
    scale, shift = (
        ops.broadcast(number(neutral) if args[name] is None else b.value(args[name]), channels)
        for name, neutral in (("weight", 1.0), ("bias", 0.0))
    )
    mean, var = b.value(args["running_mean"]), b.value(args["running_var"])
    return [ops.batch_norm_inference(b.value(node.args[0]), scale, shift, mean, var, float(args["eps"]))]


def _softmax(function: Any) -> Build:
    def build(b: Builder, node: Node) -> Any:
        source, dim = node.args[:2]
        return function(b.value(source), dim % rank(source))  # type: ignore[operator]

    return build


def _has_dims(query: NodeQuery) -> str | None:
    return None if rank(query.node.args[0]) else "a tensor without dims"


def _row(
    target: Any,
    build: Build,
    constraints: str = "",
    check: Constraint | None = None,
    dtypes: tuple[torch.dtype, ...] = FLOATS,
    do_not_decompose: bool = False,
) -> Row:
    return Row(target, dtypes, constraints, check, do_not_decompose, lower=build)


FIRST = "only the first result may be read"
_WITHIN = "windows within the padded image"
_POOL = "no divisor_override; windows end within padding that counts"
ROWS = [
    _row(aten.convolution.default, _convolution, "1 to 3 spatial dims", _spatial, do_not_decompose=True),
    _row(aten.linear.default, _linear),
    _row(aten.addmm.default, _addmm, "alpha and beta must be 1", _check_addmm),
    _row(aten.mm.default, _matmul),
    _row(aten.bmm.default, _matmul),
    _row(aten.max_pool2d_with_indices.default, _max_pool, f"4 dims; {_WITHIN}; {FIRST}", _check_max_pool,
         (*FLOATS, torch.int64)),
    _row(aten.max_pool2d.default, _max_pool_without_indices, f"4 dims; {_WITHIN}", _check_max_image),
    _row(aten.scaled_dot_product_attention.default, _attention, "4 dims; no dropout_p, no enable_gqa", _check_attention,
         (*FLOATS, torch.bool), do_not_decompose=True),
    _row(aten.avg_pool2d.default, _avg_pool, f"4 dims; {_POOL}", _check_avg_pool),
    _row(aten._adaptive_avg_pool2d.default, _adaptive, "4 dims", _image),
    _row(aten.adaptive_avg_pool2d.default, _adaptive, "4 dims", _image),
    _row(aten.native_layer_norm.default, _layer_norm, FIRST, _only_first),
    _row(aten.native_group_norm.default, _group_norm, FIRST, _only_first),
    _row(aten._native_batch_norm_legit_no_training.default, _batch_norm, FIRST, _only_first),
    _row(aten._softmax.default, _softmax(ops.softmax), check=_has_dims),
    _row(aten.softmax.int, _softmax(ops.softmax), check=_has_dims),
    _row(aten.log_softmax.int, _softmax(ops.log_softmax), check=_has_dims),
    _row(aten._log_softmax.default, _softmax(ops.log_softmax), check=_has_dims),
]  # fmt: skip
