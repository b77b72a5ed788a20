"""Pooling of volumes [N, C, D, H, W], and views of volumes as images. XNNPACK has no 3-d nodes.

With channels last, two views need no copy: the planes [N * D, C, H, W], one image for each depth, and the columns
[N, C, D, H * W], one image whose height is the depth of the volume.
"""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch.fx import Node

from edgecore.sdk import for_each
from edgecore_xnnpack.graph.lower import Lowering
from edgecore_xnnpack.graph.padding import pad
from edgecore_xnnpack.graph.subgraph import LAST, Shape, SubgraphValue
from edgecore_xnnpack.operator_table import Query, lowers
from edgecore_xnnpack.operators.elementwise import binary
from edgecore_xnnpack.operators.pooling import (
    Pair,
    adaptive_image,
    average_image,
    average_problem,
    max_pool_image,
    max_pool_problem,
)
from edgecore_xnnpack.operators.shape import slice_of
from edgecore_xnnpack.schema import graph as g

aten = torch.ops.aten


def planes_shape(shape: Shape) -> Shape:
    """Return the shape [N * D, C, H, W] of the planes of a volume: one image for each depth."""
    return (shape[0] * shape[2], shape[1], *shape[3:])


def columns_shape(shape: Shape) -> Shape:
    """Return the shape [N, C, D, H * W] of the columns of a volume: one image, whose height is the depth."""
    return (*shape[:3], shape[3] * shape[4])


def as_planes(low: Lowering, value: SubgraphValue) -> SubgraphValue:
    """View a volume [N, C, D, H, W] as the images of its planes, [N * D, C, H, W]."""
    return _as(low, value, planes_shape(value.shape))


def as_columns(low: Lowering, value: SubgraphValue) -> SubgraphValue:
    """View a volume [N, C, D, H, W] as one image per sample, [N, C, D, H * W], whose height is the depth."""
    return _as(low, value, columns_shape(value.shape))


def as_volume(low: Lowering, value: SubgraphValue, shape: Shape) -> SubgraphValue:
    """View the result of `as_planes` or `as_columns` as a volume of `shape` again."""
    return _as(low, value, shape)


def _as(low: Lowering, value: SubgraphValue, shape: Shape) -> SubgraphValue:
    """Emit a reshape whose input and output both have channels last."""
    return low.emit(g.StaticReshape, [value], shape, LAST, new_shape=shape)


def depth_slices(
    low: Lowering, volume: SubgraphValue, outputs: int, kernel: int, stride: int, padding: int, dilation: int
) -> list[SubgraphValue]:
    """Return inputs for 2-d convolutions whose sum is a 3-d convolution, one for each depth index of the kernel.

    Plane d of input k is the plane of the volume that kernel slice k reads for plane d of the result.

    Args:
        low: The lowering.
        volume: The volume, [N, C, D, H, W].
        outputs: Depth of the result.
        kernel: Depth of the kernel.
        stride: Stride along the depth.
        padding: Zeros before and after the depth.
        dilation: Dilation along the depth.

    Returns:
        `kernel` volumes [N, C, outputs, H, W].
    """
    batch, channels, depth, height, width = volume.shape
    value = volume
    needed = max(padding + depth, dilation * (kernel - 1) + stride * outputs)
    total = -(-needed // stride) * stride
    after = total - padding - depth
    if padding or after:
        value = pad(low, value, (0, 0, padding, 0, 0), (0, 0, after, 0, 0), 0.0)
    if stride > 1:  # view each group of `stride` planes as one tall plane; slices of its rows are the single planes
        value = _as(low, value, (batch, channels, total // stride, stride * height, width))
    slices = []
    for start in range(0, kernel * dilation, dilation):
        if stride == 1 and start == padding and outputs == depth:
            slices.append(volume)
            continue
        planes = slice_of(low, value, 2, start // stride, outputs)
        slices.append(slice_of(low, planes, 3, start % stride * height, height))
    return slices


def _triple(value: Any) -> tuple[int, int, int]:
    depth, height, width = for_each(value, 3)
    return depth, height, width


class _Window:
    """The window of a 3-d pooling, split into two 2-d windows: one within each plane, and one along the depth."""

    def __init__(self, source: Any, has_dilation: bool = False) -> None:
        kernel, padding = (_triple(source.argument(name)) for name in ("kernel_size", "padding"))
        stride = _triple(source.argument("stride") or kernel)
        dilation = _triple(source.argument("dilation")) if has_dilation else (1, 1, 1)
        self.size = prod(kernel)
        self.planes: tuple[Pair, Pair, Pair] = (kernel[1:], stride[1:], padding[1:])
        self.depth: tuple[Pair, Pair, Pair] = ((kernel[0], 1), (stride[0], 1), (padding[0], 0))
        self.gaps: tuple[Pair, Pair] = (dilation[1:], (dilation[0], 1))
        self.has_planes = self.planes[:2] != ((1, 1), (1, 1))
        self.has_depth = self.depth[:2] != ((1, 1), (1, 1))


def _check_max(query: Query) -> str | None:
    if len(query.shape) != 5:
        return f"rank {len(query.shape)}"
    window = _Window(query, has_dilation=True)
    problems = [max_pool_problem(*window.planes[:2])] if window.has_planes else []
    problems += [max_pool_problem(*window.depth[:2])] if window.has_depth else []
    return next(filter(None, problems), None)


@lowers(aten.max_pool3d.default, aten.max_pool3d_with_indices.default, check=_check_max, do_not_decompose=True,
        constraints="rank 5, stride within kernel, no indices")  # fmt: skip
def _max_pool(low: Lowering, node: Node) -> Any:
    """Take the maximum of the windows of each plane, then the maximum of these maxima along the depth."""
    value, window = low.input(), _Window(low, has_dilation=True)
    between = (*value.shape[:3], *low.shape[3:])
    if window.has_planes:
        planes = max_pool_image(low, as_planes(low, value), planes_shape(between), *window.planes, window.gaps[0])
        value = as_volume(low, planes, between)
    if window.has_depth:
        columns = max_pool_image(low, as_columns(low, value), columns_shape(low.shape), *window.depth, window.gaps[1])
        value = as_volume(low, columns, low.shape)
    return [value, None] if node.target is aten.max_pool3d_with_indices.default else value


def _check_average(query: Query) -> str | None:
    if len(query.shape) != 5:
        return f"rank {len(query.shape)}"
    window, shape, out = _Window(query), query.shape, query.output_shape
    between = (*shape[:3], *out[3:])
    planes = average_problem(shape[3:], out[3:], *window.planes) if window.has_planes else None
    depths = columns_shape(between)[2:], columns_shape(out)[2:]
    return planes or (average_problem(*depths, *window.depth) if window.has_depth else None)


@lowers(aten.avg_pool3d.default, check=_check_average, do_not_decompose=True,
        constraints="rank 5, stride within kernel, no rounding up")  # fmt: skip
def _avg_pool(low: Lowering, node: Node) -> SubgraphValue:
    """Average the windows of each plane, then these averages along the depth.

    The average of the averages is the average of all pixels, because windows at the same position of each plane have
    the same number of pixels.
    """
    value, window, divisor = low.input(), _Window(low), low.argument("divisor_override")
    between = (*value.shape[:3], *low.shape[3:])
    counts = low.argument("count_include_pad") or divisor is not None
    if window.has_planes:
        planes = average_image(low, as_planes(low, value), planes_shape(between), *window.planes, counts)
        value = as_volume(low, planes, between)
    if window.has_depth:
        columns = average_image(low, as_columns(low, value), columns_shape(low.shape), *window.depth, counts)
        value = as_volume(low, columns, low.shape)
    return value if divisor is None else binary(low, g.Multiply, value, low.scalar(window.size / divisor))


def _check_adaptive(query: Query) -> str | None:
    return None if len(query.shape) == 5 else f"rank {len(query.shape)}"


@lowers(aten.adaptive_avg_pool3d.default, aten._adaptive_avg_pool3d.default, check=_check_adaptive,
        constraints="with a batch", do_not_decompose=True)  # fmt: skip
def _adaptive_avg_pool(low: Lowering, node: Node) -> SubgraphValue:
    """Average the windows of each plane, then these averages along the depth.

    The average of the averages is the average of the 3-d window, because windows at the same position of each plane
    have the same number of pixels.
    """
    value = low.input()
    between = (*value.shape[:3], *low.shape[3:])
    if low.shape[2:] == (1, 1, 1):
        image = as_columns(low, value)
        return as_volume(low, adaptive_image(low, image, columns_shape(low.shape)), low.shape)
    if between != value.shape:
        value = as_volume(low, adaptive_image(low, as_planes(low, value), planes_shape(between)), between)
    if low.shape != value.shape:
        columns = adaptive_image(low, as_columns(low, value), columns_shape(low.shape))
        value = as_volume(low, columns, low.shape)
    return value
