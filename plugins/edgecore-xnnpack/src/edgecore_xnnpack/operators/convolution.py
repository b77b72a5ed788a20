"""Convolutions of sequences, images and volumes. XNNPACK has only convolutions of images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from edgecore.sdk import argument, for_each, is_dequantize, parameters_of
from edgecore_xnnpack.graph.lower import Lowering
from edgecore_xnnpack.graph.subgraph import LAST, Array, Shape, SubgraphValue
from edgecore_xnnpack.operator_table import Query, lowers
from edgecore_xnnpack.operators.elementwise import binary
from edgecore_xnnpack.operators.shape import concatenate
from edgecore_xnnpack.operators.volumes import (
    as_columns,
    as_planes,
    as_volume,
    columns_shape,
    depth_slices,
    planes_shape,
)
from edgecore_xnnpack.schema import graph as g

aten = torch.ops.aten


@dataclass(frozen=True)
class Geometry:
    """Stride, padding, dilation and groups of a convolution. Each tuple has a number per spatial dimension.

    Attributes:
        padding: Number of zeros added at the start, and again at the end.
        output_padding: Elements added at the end of the result of a transposed convolution.
    """

    stride: Shape = (1, 1)
    padding: Shape = (0, 0)
    dilation: Shape = (1, 1)
    output_padding: Shape = (0, 0)
    groups: int = 1
    transposed: bool = False


def has_scales_of_outputs(node: Node) -> bool:
    """Return True if the weight of a convolution was dequantized with one scale, or one per output channel."""
    weight = argument(node, "weight")
    parameters = parameters_of(weight) if is_dequantize(weight) else None
    if parameters is None:
        return False
    is_transposed = argument(node, "transposed")
    has_outputs = not is_transposed or argument(node, "groups") == 1
    return parameters.is_per_tensor or (parameters.axis == int(is_transposed) and has_outputs)


def transposed_problem(node: Node, sizes: Sequence[Any]) -> str | None:
    """Return why XNNPACK does not support a transposed convolution whose results have these sizes, or None."""
    extras, steps = (for_each(argument(node, name), len(sizes)) for name in ("output_padding", "stride"))
    if any(extra >= step for extra, step in zip(extras, steps, strict=True)):
        return "output padding not below stride"
    if any(isinstance(size, int) and size < step - 1 for size, step in zip(sizes, steps, strict=True)):
        return "its result is smaller than its stride - 1, for which XNNPACK reads memory that it does not own"
    return None


def _check_convolution(query: Query) -> str | None:
    weight, bias = query.argument("weight"), query.argument("bias")
    if len(query.shape) not in (3, 4, 5):
        return f"rank {len(query.shape)}"
    if len(query.shape) == 5 and query.argument("transposed"):
        return "transposed in three dimensions"
    if not query.is_constant(weight):
        return "weight not constant"
    if bias is not None and not query.is_constant(bias):
        return "bias not constant"
    return transposed_problem(query.node, query.output_shape[2:]) if query.argument("transposed") else None


@lowers(aten.convolution.default, check=_check_convolution, do_not_decompose=True,
        constraints="constant weight and bias; not transposed in three dimensions")  # fmt: skip
def _convolution(low: Lowering, node: Node) -> SubgraphValue:
    weight = low.array(low.argument("weight"))
    assert weight is not None
    value, shape = low.input(), low.shape
    count = len(shape) - 2
    stride, padding, dilation, output_padding = (
        tuple(map(int, for_each(low.argument(name), count)))
        for name in ("stride", "padding", "dilation", "output_padding")
    )
    if len(shape) == 3:  # compute a 1-d convolution on images of one row
        value = low.reshape(value, (*value.shape[:2], 1, value.shape[2]))
        weight = weight[:, :, None, :]
        stride, padding, dilation, output_padding = (1, *stride), (0, *padding), (1, *dilation), (0, *output_padding)
        shape = (*shape[:2], 1, shape[2])
    geometry = Geometry(stride, padding, dilation, output_padding, low.argument("groups"), low.argument("transposed"))
    bias = None if low.argument("bias") is None else low.value(low.argument("bias"))
    scales = low.scales(low.argument("weight")) if has_scales_of_outputs(node) else None
    if len(shape) == 5:
        return _convolve_volume(low, value, weight, bias, geometry, scales)
    return low.reshape(convolve(low, value, weight, bias, shape, geometry, scales), low.shape)


def _convolve_volume(
    low: Lowering,
    value: SubgraphValue,
    weight: Array,
    bias: SubgraphValue | None,
    geometry: Geometry,
    scales: Array | None,
) -> SubgraphValue:
    """Emit a 3-d convolution as 2-d convolutions. Each tuple of `geometry` is (depth, height, width).

    - A kernel [K, 1, 1] without stride and padding in height and width becomes one convolution along the height of the
      image [N, C, D, H * W].
    - For other kernels, each plane [N, C, H, W] is an image. For one output plane, a kernel of depth K reads K input
      planes. These planes are concatenated along the channels, which gives K * C channels, and one 2-d convolution sums
      over all channels. It needs as many multiplications as the 3-d convolution.
    - With groups, the concatenated channels would have to be interleaved by group. K convolutions and their sum avoid
      this.
    """
    kernel, channels = weight.shape[2:], weight.shape[1]
    stride, padding, dilation = geometry.stride, geometry.padding, geometry.dilation
    if kernel[1:] == (1, 1) and stride[1:] == (1, 1) and not any(padding[1:]):
        along_depth = Geometry((stride[0], 1), (padding[0], 0), (dilation[0], 1), groups=geometry.groups)
        image, shape = as_columns(low, value), columns_shape(low.shape)
        result = convolve(low, image, weight[..., 0], bias, shape, along_depth, scales)
        return as_volume(low, result, low.shape)
    slices = depth_slices(low, value, low.shape[2], kernel[0], stride[0], padding[0], dilation[0])
    shape = planes_shape(low.shape)
    in_plane = Geometry(stride[1:], padding[1:], dilation[1:], groups=geometry.groups)
    if geometry.groups == 1:
        joined = weight.transpose(0, 2, 1, 3, 4).reshape(-1, kernel[0] * channels, *kernel[1:])
        image = as_planes(low, concatenate(low, slices, 1))
        return as_volume(low, convolve(low, image, joined, bias, shape, in_plane, scales), low.shape)
    total = None
    for depth, volume in enumerate(slices):
        image, part_bias = as_planes(low, volume), bias if total is None else None
        part = convolve(low, image, weight[:, :, depth], part_bias, shape, in_plane, scales)
        total = part if total is None else binary(low, g.Add, total, part)
    assert total is not None
    return as_volume(low, total, low.shape)


def convolve(
    low: Lowering,
    value: SubgraphValue,
    weight: Array,
    bias: SubgraphValue | None,
    shape: Shape,
    geometry: Geometry,
    scales: Array | None = None,
) -> SubgraphValue:
    """Emit a 2-d convolution. Each tuple of `geometry` is (height, width).

    Args:
        low: The lowering.
        value: The image, [N, I, H, W].
        weight: The filter in ATen's order: [O, I / groups, H, W], or [I, O / groups, H, W] if transposed.
        bias: The bias, [O], or None.
        shape: Shape of the result.
        geometry: Stride, padding and so on.
        scales: Scales of a dequantized weight: one in total, or one per output channel.
    """
    kernel, groups = weight.shape[2:], geometry.groups
    if geometry.transposed:
        group_in, group_out = weight.shape[0] // groups, weight.shape[1]
        # From ATen's order [groups * I, O, H, W] to XNNPACK's [groups * O, H, W, I], with I and O channels per group.
        weight = weight.reshape(groups, group_in, group_out, *kernel).transpose(0, 2, 3, 4, 1)
        weight = weight.reshape(groups * group_out, *kernel, group_in)
        kind: type = g.ConvTranspose2d
    else:
        group_in, group_out = weight.shape[1], weight.shape[0] // groups
        if group_in == 1 and groups > 1:
            kind, weight = g.DepthwiseConv2d, weight.transpose(1, 2, 3, 0)
        else:
            kind, weight = g.Conv2d, weight.transpose(0, 2, 3, 1)
    inputs = [value, low.constant(weight, scales, 3 if kind is g.DepthwiseConv2d else 0)] + (
        [] if bias is None else [bias]
    )
    return low.emit(
        kind, inputs, shape, LAST,
        padding_top=geometry.padding[0], padding_right=geometry.padding[1],
        padding_bottom=geometry.padding[0], padding_left=geometry.padding[1],
        kernel_height=kernel[0], kernel_width=kernel[1],
        subsampling_height=geometry.stride[0], subsampling_width=geometry.stride[1],
        dilation_height=geometry.dilation[0], dilation_width=geometry.dilation[1],
        group_input_channels=group_in, group_output_channels=group_out, groups=groups,
        adjustment_height=geometry.output_padding[0], adjustment_width=geometry.output_padding[1],
    )  # fmt: skip
