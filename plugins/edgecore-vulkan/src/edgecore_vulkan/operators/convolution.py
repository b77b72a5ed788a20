"""Lower convolutions and transposed convolutions of images and sequences to operator calls."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from edgecore.sdk import arguments_by_name, for_each, rank, shape
from edgecore_vulkan.graph.calls import TensorValue
from edgecore_vulkan.operators.builder import Builder, float_row, is_static

aten = torch.ops.aten

_MAX_BATCH = 8
"""Maximum batch for executorch 1.5, for which each image is convolved separately."""


def _convolution(b: Builder, node: Node) -> TensorValue:
    """Emit a convolution; a sequence [N, C, L] becomes an image of height 1."""
    args = arguments_by_name(node)
    count = rank(node) - 2
    stride, padding, dilation, extra = (
        list(for_each(args[name], count)) for name in ("stride", "padding", "dilation", "output_padding")
    )
    x, output = b.value(args["input"]), b.result(node)
    bias = b.bias(args["bias"])
    is_line = count == 1
    if is_line:
        x = b.view(x, (*x.shape[:2], 1, x.shape[2]))
        stride, padding, dilation, extra = [1, *stride], [0, *padding], [1, *dilation], [0, *extra]
    result = TensorValue((*output.shape[:2], 1, output.shape[2]), output.dtype) if is_line else output
    kernel = _image_kernel(b, args["weight"]) if is_line else b.weight(args["weight"])
    b.keep_exact(kernel, bias)
    rest = [kernel, bias, stride, padding, dilation, bool(args["transposed"]), extra, args["groups"]]
    if b.profile.is_stock and x.shape[0] > 1:  # executorch 1.5's delegate convolves one image at a time
        images = []
        for index in range(x.shape[0]):
            image = TensorValue((1, *x.shape[1:]), x.dtype)
            b.call("aten.slice_copy.Tensor", [x, 0, index, index + 1, 1], image)
            images.append(TensorValue((1, *result.shape[1:]), result.dtype))
            b.call("aten.convolution.default", [image, *rest], images[-1])
        b.call("aten.cat.default", [images, 0], result)
    else:
        b.call("aten.convolution.default", [x, *rest], result)
    if is_line:
        b.call("aten.view_copy.default", [result, list(output.shape)], output)
    return output


def _image_kernel(b: Builder, node: Node) -> TensorValue:
    """Add a height of 1 to the weight of a convolution of sequences: [O, I, K] becomes [O, I, 1, K]."""
    weight = b.constant_of(node)
    assert weight is not None
    return b.weights(weight.unsqueeze(2))


def _check_convolution(query: Any) -> str | None:
    x, weight, bias = (query.argument(name) for name in ("input", "weight", "bias"))
    count = rank(query.node) - 2
    groups, transposed = query.argument("groups"), query.argument("transposed")
    if count not in (1, 2):
        return f"{count} spatial dims"
    if not query.is_constant(weight) or not (bias is None or query.is_constant(bias)):
        return "weights that are computed"
    if count == 1 and not is_static(x):
        return "one spatial dim of symbolic size"
    if not query.profile.is_stock:
        return None
    if not isinstance(shape(x)[0], int) or shape(x)[0] > _MAX_BATCH:
        return f"a batch of {shape(x)[0]}: executorch 1.5 convolves one image at a time"
    sizes = shape(weight)
    if groups > 1 and (transposed or sizes[0] != groups or sizes[1] != 1):
        return "groups that are not depthwise, which executorch 1.5 does not support"
    if transposed and any(dilation > 1 for dilation in query.argument("dilation")):
        return "a dilated transposed convolution, which executorch 1.5 does not support"
    return None


ROWS = [
    float_row(
        aten.convolution.default,
        _convolution,
        "constant weights; executorch-1.5: batch to 8, 1 group or depthwise",
        _check_convolution,
        keep=True,
    ),
]
