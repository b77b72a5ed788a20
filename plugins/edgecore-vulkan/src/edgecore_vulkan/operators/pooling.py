"""Lower pooling of images to operator calls."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from edgecore.sdk import NodeQuery, arguments_by_name, for_each, rank, shape
from edgecore_vulkan.graph.calls import TensorValue
from edgecore_vulkan.operators.builder import ONLY_FIRST, Builder, float_row, image_only, is_static, only_first

aten = torch.ops.aten


def _max_pool(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    kernel = list(for_each(args["kernel_size"], 2))
    stride = list(for_each(args["stride"] or kernel, 2))
    padding, dilation = list(for_each(args["padding"], 2)), list(for_each(args["dilation"], 2))
    has_indices = isinstance(node.meta["val"], (tuple, list))
    output = b.result(node, 0 if has_indices else None)
    b.call(
        "aten.max_pool2d.default", [b.value(node.args[0]), kernel, stride, padding, dilation, args["ceil_mode"]], output
    )
    return [output] if has_indices else output


def _average_pool(b: Builder, node: Node) -> TensorValue:
    args = arguments_by_name(node)
    kernel = list(for_each(args["kernel_size"], 2))
    stride, padding = list(for_each(args["stride"] or kernel, 2)), list(for_each(args["padding"], 2))
    ceil, include = bool(args["ceil_mode"]), bool(args["count_include_pad"])
    output: TensorValue = b.call(
        "aten.avg_pool2d.default",
        [b.value(node.args[0]), kernel, stride, padding, ceil, include, args["divisor_override"]],
        b.result(node),
    )
    return output


def _adaptive_pool(b: Builder, node: Node) -> TensorValue:
    """Emit a mean if the result has one pixel, otherwise an average pooling with windows of equal size."""
    x, output = b.value(node.args[0]), b.result(node)
    if output.shape[2:] == (1, 1):
        b.call("aten.mean.dim", [x, [-1, -2], True, None], output)
        return output
    kernel = [size // count for size, count in zip(x.shape[2:], output.shape[2:], strict=True)]
    b.call("aten.avg_pool2d.default", [x, kernel, kernel, [0, 0], False, True, None], output)
    return output


def _check_adaptive(query: NodeQuery) -> str | None:
    before, after = shape(query.node.args[0])[2:], shape(query.node)[2:]
    if rank(query.node) != 4:
        return f"{rank(query.node)} dims instead of 4"
    if after == (1, 1):
        return None
    if not (is_static(query.node) and is_static(query.node.args[0])):
        return "symbolic height or width"
    divides = all(size % count == 0 for size, count in zip(before, after, strict=True))
    return None if divides else "windows of different sizes"


def _check_max_pool(query: NodeQuery) -> str | None:
    return only_first(query) or image_only(query)


ROWS = [
    float_row(aten.max_pool2d_with_indices.default, _max_pool, f"4 dims; {ONLY_FIRST}", _check_max_pool),
    float_row(aten.max_pool2d.default, _max_pool, "4 dims", image_only, keep=True),
    float_row(aten.avg_pool2d.default, _average_pool, "4 dims", image_only, keep=True),
    float_row(aten._adaptive_avg_pool2d.default, _adaptive_pool, "4 dims; equal windows", _check_adaptive, keep=True),
    float_row(aten.adaptive_avg_pool2d.default, _adaptive_pool, "4 dims; equal windows", _check_adaptive, keep=True),
]
