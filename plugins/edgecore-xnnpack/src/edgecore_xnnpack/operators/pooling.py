"""Pooling, bilinear resizing and padding of images."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from edgecore.sdk import for_each
from edgecore_xnnpack.graph.lower import Lowering
from edgecore_xnnpack.graph.padding import pad
from edgecore_xnnpack.graph.subgraph import LAST, Array, Shape, SubgraphValue
from edgecore_xnnpack.operator_table import Query, lowers
from edgecore_xnnpack.operators.elementwise import binary
from edgecore_xnnpack.operators.matmul import fully_connected
from edgecore_xnnpack.schema import graph as g

aten = torch.ops.aten

MAX_IN_WINDOW = 2**16
"""The largest height, and the largest width, of a pooling window that the delegate accepts."""

Pair = tuple[int, int]


def _pair(value: Any) -> Pair:
    height, width = for_each(value, 2)
    return height, width


def _window(source: Any) -> tuple[Pair, Pair, Pair]:
    """Return kernel, stride and padding of a pooling; `source` is the `Query` or the `Lowering` of the node."""
    kernel = _pair(source.argument("kernel_size"))
    return kernel, _pair(source.argument("stride") or kernel), _pair(source.argument("padding"))


def _excess(size: int, out: int, kernel: int, stride: int, padding: int, dilation: int = 1) -> int:
    """Return the padding that a dimension needs at its end, so that `out` windows fit.

    XNNPACK rounds the number of windows down. So a call that rounds up (`ceil_mode`) needs more padding at the end.
    """
    return max((out - 1) * stride + dilation * (kernel - 1) + 1 - size - padding, padding)


def _pooling(
    low: Lowering,
    kind: type,
    value: SubgraphValue,
    shape: Shape,
    kernel: Any,
    stride: Any,
    pads: Any,
    dilation: Any = (1, 1),
) -> SubgraphValue:
    """Emit a pooling node of class `kind` whose output has `shape`; `pads` is (top, bottom, left, right)."""
    return low.emit(
        kind, [value], shape, LAST,
        padding_top=pads[0], padding_right=pads[3], padding_bottom=pads[1], padding_left=pads[2],
        pooling_height=kernel[0], pooling_width=kernel[1], stride_height=stride[0], stride_width=stride[1],
        dilation_height=dilation[0], dilation_width=dilation[1], flags=g.KEEP_DIMS,
    )  # fmt: skip


def max_pooling(low: Lowering, value: SubgraphValue, shape: Shape, kernel: Shape) -> SubgraphValue:
    """Emit the maximum of each window of size `kernel`; the stride is equal to `kernel`."""
    return _pooling(low, g.MaxPooling2d, value, shape, kernel, kernel, (0, 0, 0, 0))


def image_of(low: Lowering, value: SubgraphValue) -> SubgraphValue:
    """View a sequence [N, C, L] as an image of one row, [N, C, 1, L]; return an image as it is."""
    return low.reshape(value, (*value.shape[:2], 1, value.shape[2])) if len(value.shape) == 3 else value


def _as_image(shape: Shape) -> Shape:
    return (*shape[:2], 1, shape[2]) if len(shape) == 3 else shape


def max_pool_problem(kernel: Pair, stride: Pair) -> str | None:
    """Return why XNNPACK does not support a max pooling of images; None if it does."""
    if kernel == (1, 1):
        return "kernel 1x1"
    return "stride above kernel" if stride[0] > kernel[0] or stride[1] > kernel[1] else None


def _check_max_pool(query: Query) -> str | None:
    if len(query.shape) != 4:
        return f"rank {len(query.shape)}"
    kernel, stride, _ = _window(query)
    return max_pool_problem(kernel, stride)


@lowers(aten.max_pool2d.default, aten.max_pool2d_with_indices.default, check=_check_max_pool, do_not_decompose=True,
        constraints="rank 4, kernel above 1x1, stride within kernel, no indices")  # fmt: skip
def _max_pool(low: Lowering, node: Node) -> Any:
    result = max_pool_image(low, low.input(), low.shape, *_window(low), _pair(low.argument("dilation")))
    return [result] if node.target is aten.max_pool2d_with_indices.default else result


def max_pool_image(
    low: Lowering, value: SubgraphValue, shape: Shape, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair
) -> SubgraphValue:
    """Emit the maximum of each window of an image; the result has the shape `shape`."""
    pads = []
    for axis in (0, 1):
        size, out = value.shape[2 + axis], shape[2 + axis]
        end = _excess(size, out, kernel[axis], stride[axis], padding[axis], dilation[axis])
        pads += [padding[axis], end]
    if dilation != (1, 1) and any(pads):
        # XNNPACK replaces a pixel in the padding by the nearest pixel of the image. A window without dilation contains
        # that pixel, so that its maximum does not change; a dilated window may not. So pad with -inf instead.
        value, pads = pad(low, value, (0, 0, pads[0], pads[2]), (0, 0, pads[1], pads[3]), -inf), [0, 0, 0, 0]
    return _pooling(low, g.MaxPooling2d, value, shape, kernel, stride, pads, dilation)


def _average_window(source: Any) -> tuple[Pair, Pair, Pair]:
    """Return kernel, stride and padding of an average pooling; a 1-d pooling is computed on images of one row."""
    kernel, stride, padding = _window(source)
    if len(source.shape) == 3:
        return (1, kernel[1]), (1, stride[1]), (0, padding[1])
    return kernel, stride, padding


def _check_avg_pool(query: Query) -> str | None:
    rank = 3 if query.node.target is aten.avg_pool1d.default else 4
    if len(query.shape) != rank:
        return f"rank {len(query.shape)}"
    return average_problem(_as_image(query.shape)[2:], _as_image(query.output_shape)[2:], *_average_window(query))


def average_problem(sizes: Shape, outputs: Shape, kernel: Pair, stride: Pair, padding: Pair) -> str | None:
    """Return why XNNPACK does not support an average pooling of images; None if it does.

    `sizes` is (height, width) of the input, `outputs` of the output.
    """
    if kernel == (1, 1):
        return "kernel 1x1"
    if stride[0] > kernel[0] or stride[1] > kernel[1]:
        return "stride above kernel"
    for size, out, length, step, pads in zip(sizes, outputs, kernel, stride, padding, strict=True):
        if _excess(size, out, length, step, pads) != pads:
            return "ceil_mode"
    return None


@lowers(aten.avg_pool2d.default, aten.avg_pool1d.default, check=_check_avg_pool, do_not_decompose=True,
        constraints="with a batch, kernel above 1x1, stride within kernel, no rounding up")  # fmt: skip
def _avg_pool(low: Lowering, node: Node) -> SubgraphValue:
    kernel, stride, padding = _average_window(low)
    value = image_of(low, low.input())
    divisor = None if node.target is aten.avg_pool1d.default else low.argument("divisor_override")
    counts = low.argument("count_include_pad") or divisor is not None
    result = average_image(low, value, _as_image(low.shape), kernel, stride, padding, counts)
    if divisor is not None:
        result = binary(low, g.Multiply, result, low.scalar(kernel[0] * kernel[1] / divisor))
    return low.reshape(result, low.shape)


def average_image(
    low: Lowering, value: SubgraphValue, shape: Shape, kernel: Pair, stride: Pair, padding: Pair, counts_padding: bool
) -> SubgraphValue:
    """Emit the average of each window of an image; the result has the shape `shape`."""
    if any(padding) and counts_padding:
        value = pad(low, value, (0, 0, *padding), (0, 0, *padding), 0.0)
        padding = (0, 0)
    pads = (padding[0], padding[0], padding[1], padding[1])
    return _pooling(low, g.AvgPooling2d, value, shape, kernel, stride, pads)


def _check_adaptive(query: Query) -> str | None:
    rank = 3 if query.node.target is aten.adaptive_avg_pool1d.default else 4
    return None if len(query.shape) == rank else f"rank {len(query.shape)}"


@lowers(aten._adaptive_avg_pool2d.default, aten.adaptive_avg_pool2d.default, aten.adaptive_avg_pool1d.default,
        check=_check_adaptive, constraints="with a batch", do_not_decompose=True)  # fmt: skip
def _adaptive_avg_pool(low: Lowering, node: Node) -> SubgraphValue:
    return low.reshape(adaptive_image(low, image_of(low, low.input()), _as_image(low.shape)), low.shape)


def adaptive_image(low: Lowering, value: SubgraphValue, shape: Shape) -> SubgraphValue:
    """Emit an adaptive average pooling; the result has the shape `shape`.

    If all windows have the same size, this is an average pooling. Otherwise it is two matmuls with weights that average
    (`_windows`), one along the width and one along the height.
    """
    sizes = value.shape[2:]
    if sizes == shape[2:]:
        return value
    if shape[2:] == (1, 1):
        return low.emit(g.GlobalAvgPooling2d, [value], shape, LAST, flags=g.KEEP_DIMS)
    if all(size % out == 0 for size, out in zip(sizes, shape[2:], strict=True)):
        kernel = tuple(size // out for size, out in zip(sizes, shape[2:], strict=True))
        return _pooling(low, g.AvgPooling2d, value, shape, kernel, kernel, (0, 0, 0, 0))
    columns = fully_connected(low, value, _windows(sizes[1], shape[3]), None)
    rows_last = low.permute(columns, (0, 1, 3, 2))
    return low.permute(fully_connected(low, rows_last, _windows(sizes[0], shape[2]), None), (0, 1, 3, 2))


def _windows(size: int, out: int) -> Array:
    """Return weights [out, size] of a matmul that computes an adaptive average pooling along one dim.

    Row i averages the elements from floor(i * size / out) to ceil((i + 1) * size / out) - 1, as PyTorch does.
    """
    weights = np.zeros((out, size), np.float32)
    for index in range(out):
        start, end = index * size // out, -(-(index + 1) * size // out)
        weights[index, start:end] = 1 / (end - start)
    return weights


def _check_adaptive_max(query: Query) -> str | None:
    if len(query.shape) != 4:
        return f"rank {len(query.shape)}"
    for size, out in zip(query.shape[2:], query.output_shape[2:], strict=True):
        if size % out:
            return f"{size} not divisible by {out}"
    return None


@lowers(aten.adaptive_max_pool2d.default, check=_check_adaptive_max, do_not_decompose=True,
        constraints="rank 4, sizes divisible, no indices")  # fmt: skip
def _adaptive_max_pool(low: Lowering, node: Node) -> list[Any]:
    value = low.input()
    kernel = tuple(size // out for size, out in zip(value.shape[2:], low.shape[2:], strict=True))
    return [value if kernel == (1, 1) else max_pooling(low, value, low.shape, kernel), None]


def _check_resize(query: Query) -> str | None:
    factors = query.argument("scale_factors")
    if len(query.shape) != 4:
        return f"rank {len(query.shape)}"
    if factors is not None and not query.argument("align_corners"):
        for size, out, factor in zip(query.shape[2:], query.output_shape[2:], factors, strict=True):
            if size * factor != out:
                return f"size {size} times scale {factor} is no integer"
    return None


@lowers(
    aten.upsample_bilinear2d.vec,
    check=_check_resize,
    constraints="rank 4, sizes times scales are integers",
    do_not_decompose=True,
)
def _resize(low: Lowering, node: Node) -> SubgraphValue:
    flags = g.ALIGN_CORNERS if low.argument("align_corners") else 0
    height, width = low.shape[2:]
    return low.emit(
        g.StaticResizeBilinear2D, [low.input()], low.shape, LAST, new_height=height, new_width=width, flags=flags
    )
