"""Pooling and resizing of images."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from edgecore_xnnpack.lowering import Lowering
from edgecore_xnnpack.net import LAST, TIED, Value
from edgecore_xnnpack.operators.table import Query, lowers
from edgecore_xnnpack.schema import graph as g

aten = torch.ops.aten


def _pair(value: Any) -> tuple[int, int]:
    values = [value] if isinstance(value, int) else list(value)
    return int(values[0]), int(values[-1])


def _window(source: Any) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    """Kernel, stride and padding of a pooling node."""
    kernel = _pair(source.argument("kernel_size"))
    return kernel, _pair(source.argument("stride") or kernel), _pair(source.argument("padding"))


def _excess(size: int, out: int, kernel: int, stride: int, padding: int, dilation: int = 1) -> int:
    """Padding at the end, in elements, with which a window count rounded down gives `out`."""
    return max((out - 1) * stride + dilation * (kernel - 1) + 1 - size - padding, padding)


def _pooling(low: Lowering, kind: type, value: Value, kernel: Any, stride: Any, pads: Any, dilation: Any) -> Value:
    """`pads` is (top, bottom, left, right)."""
    return low.emit(
        kind, [value], low.shape, LAST,
        padding_top=pads[0], padding_right=pads[3], padding_bottom=pads[1], padding_left=pads[2],
        pooling_height=kernel[0], pooling_width=kernel[1], stride_height=stride[0], stride_width=stride[1],
        dilation_height=dilation[0], dilation_width=dilation[1], flags=g.KEEP_DIMS,
    )  # fmt: skip


def _check_max_pool(query: Query) -> str | None:
    if len(query.shape) != 4:
        return f"rank {len(query.shape)}"
    kernel, stride, padding = _window(query)
    if kernel == (1, 1):
        return "kernel 1x1"
    if stride[0] > kernel[0] or stride[1] > kernel[1]:
        return "stride above kernel"
    # XNNPACK reads the nearest pixel in place of padding, which is one of the window's only if that has no gaps.
    dilated = _pair(query.argument("dilation")) != (1, 1)
    return "dilation with padding" if dilated and (any(padding) or query.argument("ceil_mode")) else None


@lowers(aten.max_pool2d.default, aten.max_pool2d_with_indices.default, check=_check_max_pool, whole=True,
        constraints="rank 4, kernel above 1x1, stride within kernel, no padding with dilation, no indices")  # fmt: skip
def _max_pool(low: Lowering, node: Node) -> Any:
    kernel, stride, padding = _window(low)
    dilation, value = _pair(low.argument("dilation")), low.input()
    pads = []
    for axis in (0, 1):
        size, out = value.shape[2 + axis], low.shape[2 + axis]
        end = _excess(size, out, kernel[axis], stride[axis], padding[axis], dilation[axis])
        pads += [padding[axis], end]
    result = _pooling(low, g.MaxPooling2d, value, kernel, stride, pads, dilation)
    return [result] if node.target is aten.max_pool2d_with_indices.default else result


def _check_avg_pool(query: Query) -> str | None:
    if len(query.shape) != 4:
        return f"rank {len(query.shape)}"
    kernel, stride, padding = _window(query)
    if kernel == (1, 1):
        return "kernel 1x1"
    if stride[0] > kernel[0] or stride[1] > kernel[1]:
        return "stride above kernel"
    if query.argument("divisor_override") not in (None, kernel[0] * kernel[1]):
        return "divisor_override"
    if query.argument("ceil_mode"):
        for axis in (0, 1):
            size, out = query.shape[2 + axis], query.output_shape[2 + axis]
            if _excess(size, out, kernel[axis], stride[axis], padding[axis]) != padding[axis]:
                return "ceil_mode"
    return None


@lowers(aten.avg_pool2d.default, check=_check_avg_pool, whole=True,
        constraints="rank 4, kernel above 1x1, stride within kernel, no rounding up, no divisor")  # fmt: skip
def _avg_pool(low: Lowering, node: Node) -> Value:
    kernel, stride, padding = _window(low)
    value = low.input()
    if any(padding) and low.argument("count_include_pad"):
        value = pad(low, value, (0, 0, *padding), (0, 0, *padding), 0.0)
        padding = (0, 0)
    pads = (padding[0], padding[0], padding[1], padding[1])
    return _pooling(low, g.AvgPooling2d, value, kernel, stride, pads, (1, 1))


def pad(low: Lowering, value: Value, before: tuple[int, ...], after: tuple[int, ...], number: float) -> Value:
    """`value` with `before` and `after` elements of `number` around each dimension."""
    shape = tuple(a + size + b for a, size, b in zip(before, value.shape, after, strict=True))
    return low.emit(
        g.StaticConstantPad, [value], shape, TIED, pre_paddings=before, post_paddings=after, padding_value=number
    )


def _check_adaptive(query: Query) -> str | None:
    if len(query.shape) != 4:
        return f"rank {len(query.shape)}"
    for size, out in zip(query.shape[2:], query.output_shape[2:], strict=True):
        if size % out:
            return f"{size} not divisible by {out}"
    return None


@lowers(aten._adaptive_avg_pool2d.default, aten.adaptive_avg_pool2d.default, check=_check_adaptive, whole=True,
        constraints="rank 4, sizes divisible")  # fmt: skip
def _adaptive_avg_pool(low: Lowering, node: Node) -> Value:
    value = low.input()
    kernel = [size // out for size, out in zip(value.shape[2:], low.shape[2:], strict=True)]
    if kernel == [1, 1]:
        return value
    if low.shape[2:] == (1, 1):
        return low.emit(g.GlobalAvgPooling2d, [value], low.shape, LAST, flags=g.KEEP_DIMS)
    return _pooling(low, g.AvgPooling2d, value, kernel, kernel, (0, 0, 0, 0), (1, 1))


def _check_resize(query: Query) -> str | None:
    factors = query.argument("scale_factors")
    if len(query.shape) != 4:
        return f"rank {len(query.shape)}"
    if factors is not None and not query.argument("align_corners"):
        for size, out, factor in zip(query.shape[2:], query.output_shape[2:], factors, strict=True):
            if size * factor != out:
                return f"scale {factor} of {size} is not whole"
    return None


@lowers(aten.upsample_bilinear2d.vec, check=_check_resize, constraints="rank 4, whole scales", whole=True)
def _resize(low: Lowering, node: Node) -> Value:
    flags = g.ALIGN_CORNERS if low.argument("align_corners") else 0
    height, width = low.shape[2:]
    return low.emit(
        g.StaticResizeBilinear2D, [low.input()], low.shape, LAST, new_height=height, new_width=width, flags=flags
    )
