"""Convolutions, in one and two dimensions, and the batch norms that nothing folded."""

from __future__ import annotations

import numpy as np
import torch
from torch.fx import Node

from edgecore_xnnpack.lowering import Lowering
from edgecore_xnnpack.net import LAST, Value
from edgecore_xnnpack.operators.elementwise import binary
from edgecore_xnnpack.operators.table import Query, lowers
from edgecore_xnnpack.schema import graph as g

aten = torch.ops.aten


def _check_convolution(query: Query) -> str | None:
    weight, bias = query.argument("weight"), query.argument("bias")
    if len(query.shape) not in (3, 4):
        return f"rank {len(query.shape)}"
    if not query.is_constant(weight):
        return "weight not constant"
    if bias is not None and not query.is_constant(bias):
        return "bias not constant"
    if query.argument("transposed"):
        stride = query.argument("stride")
        if any(extra >= step for extra, step in zip(query.argument("output_padding"), stride, strict=True)):
            return "output padding not below stride"
    elif any(size < 0 for size in query.argument("padding")):
        return "negative padding"
    return None


@lowers(aten.convolution.default, check=_check_convolution, constraints="1-d or 2-d, constant weight and bias")
def _convolution(low: Lowering, node: Node) -> Value:
    weight = low.array(low.argument("weight"))
    assert weight is not None
    names = ("stride", "padding", "dilation", "output_padding")
    stride, padding, dilation, adjustment = ([int(x) for x in low.argument(name)] for name in names)
    value, shape = low.input(), low.shape
    is_1d = len(shape) == 3
    if is_1d:  # as an image of one row
        value = low.reshape(value, (*value.shape[:2], 1, value.shape[2]))
        weight = weight[:, :, None, :]
        stride, padding, dilation, adjustment = [1, *stride], [0, *padding], [1, *dilation], [0, *adjustment]
        shape = (*shape[:2], 1, shape[2])
    groups, transposed = low.argument("groups"), low.argument("transposed")
    kernel = weight.shape[2:]
    if transposed:
        group_in, group_out = weight.shape[0] // groups, weight.shape[1]
        # [g * I, O, H, W] -> [g * O, H, W, I]
        weight = weight.reshape(groups, group_in, group_out, *kernel).transpose(0, 2, 3, 4, 1)
        weight = weight.reshape(groups * group_out, *kernel, group_in)
        kind: type = g.ConvTranspose2d
    else:
        group_in, group_out = weight.shape[1], weight.shape[0] // groups
        if group_in == 1 and groups > 1:
            kind, weight = g.DepthwiseConv2d, weight.transpose(1, 2, 3, 0)
        else:
            kind, weight = g.Conv2d, weight.transpose(0, 2, 3, 1)
    inputs = [value, low.constant(weight)]
    bias = low.argument("bias")
    if bias is not None:
        inputs.append(low.value(bias))
    result = low.emit(
        kind, inputs, shape, LAST,
        padding_top=padding[0], padding_right=padding[1], padding_bottom=padding[0], padding_left=padding[1],
        kernel_height=kernel[0], kernel_width=kernel[1],
        subsampling_height=stride[0], subsampling_width=stride[1],
        dilation_height=dilation[0], dilation_width=dilation[1],
        group_input_channels=group_in, group_output_channels=group_out, groups=groups,
        adjustment_height=adjustment[0], adjustment_width=adjustment[1],
    )  # fmt: skip
    return low.reshape(result, low.shape) if is_1d else result


def _check_batch_norm(query: Query) -> str | None:
    names = ("weight", "bias", "running_mean", "running_var")
    given = [query.argument(name) for name in names]
    if not all(value is None or query.is_constant(value) for value in given):
        return "statistics not constant"
    return None if all(user.args[1] == 0 for user in query.node.users) else "saved statistics are read"


@lowers(aten._native_batch_norm_legit_no_training.default, check=_check_batch_norm, constraints="constant statistics")
def _batch_norm(low: Lowering, node: Node) -> list[Value]:
    mean, var, gamma, beta = (
        low.array(low.argument(name)) for name in ("running_mean", "running_var", "weight", "bias")
    )
    assert mean is not None and var is not None
    scale = 1 / np.sqrt(var.astype(np.float64) + low.argument("eps")) * (1.0 if gamma is None else gamma)
    shift = (0.0 if beta is None else beta) - mean * scale
    value = low.input()
    shape = (1, -1) + (1,) * (len(value.shape) - 2)
    scaled = binary(low, g.Multiply, value, low.constant(scale.reshape(shape)))
    return [binary(low, g.Add, scaled, low.constant(shift.reshape(shape)))]
