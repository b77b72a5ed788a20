"""Average pooling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from edgecore.sdk import NodeQuery, for_each
from edgecore_tosa.builder.builder import NHWC, Builder, Value
from edgecore_tosa.builder.operator_table import FLOAT, Query, Row
from edgecore_tosa.operators.convolution import accumulator, crop
from edgecore_tosa.operators.parts import padded
from edgecore_tosa.schema import AvgPool2d, DepthwiseConv2d, DType, Op

aten = torch.ops.aten


def averages(
    b: Builder, x: Value, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], divisor: int | None
) -> Value:
    """Emit the averages of the windows of an image, or their sums divided by `divisor`.

    TOSA's AVG_POOL2D keeps the scale of the image. If the result has another scale, a depthwise convolution with a
    kernel of ones computes the sums instead, unless padding leaves fewer elements in windows at the border.

    Args:
        b: The builder.
        x: The image.
        kernel: The sizes of a window.
        stride: The stride.
        padding: (top, bottom, left, right), excluded from the averages; negative numbers crop the image.
        divisor: Divisor of the sum of a window without padding; None for the number of its elements.
    """
    image = crop(b, b.read(x, NHWC), [max(-padding[1], 0), max(-padding[3], 0)])
    pad = [max(size, 0) for size in padding]
    sizes = [
        (image.shape[1 + dim] + sum(pad[2 * dim : 2 * dim + 2]) - kernel[dim]) // stride[dim] + 1 for dim in (0, 1)
    ]
    shape = (image.shape[0], *sizes, image.shape[3])
    q, count = x.quantization, kernel[0] * kernel[1]
    if q is None or any(pad) or (divisor is None and q == b.quantization):
        zero = b.number(x.zero_point, image.dtype)
        attribute = AvgPool2d(list(kernel), list(stride), pad, DType.INT32 if q else DType.FP32)
        tensor = b.emit(Op.AVG_POOL2D, [image, zero, zero], shape, image.dtype, attribute)
        if q is None:
            return Value(tensor if divisor is None else b.compute(Op.MUL, tensor, count / divisor), NHWC)
        return b.convert(Value(tensor, NHWC, q if divisor is None else q.scaled(count / divisor)), b.quantization)
    form = DepthwiseConv2d([0] * 4, list(stride), [1, 1], acc_type=accumulator(image.dtype))
    ones = b.constant(np.ones((*kernel, image.shape[3], 1)), DType.INT8)
    zeros = b.constant(np.zeros(image.shape[3]), form.acc_type)
    inputs = [image, ones, zeros, b.number(x.zero_point, image.dtype), b.number(0, DType.INT8)]
    sums = b.emit(Op.DEPTHWISE_CONV2D, inputs, shape, form.acc_type, form)
    return b.finish(sums, q.step / (divisor or count), NHWC)


def _pool(b: Builder) -> Value:
    """Emit average pooling; padding that averages include becomes part of the image: AVG_POOL2D ignores padding."""
    x, divisor = b.input(), b.argument("divisor_override")
    kernel = for_each(b.argument("kernel_size"), 2)
    stride = for_each(b.argument("stride") or kernel, 2)
    padding = for_each(b.argument("padding"), 2)
    image, extra = b.read(x, NHWC), []
    for dim in range(2):
        needed = (b.shape[2 + dim] - 1) * stride[dim] + kernel[dim]
        extra.append(needed - image.shape[1 + dim] - padding[dim])  # padding needed at the end
    counts = b.argument("count_include_pad") or divisor is not None
    pad = [padding[0], extra[0], padding[1], extra[1]]
    # Elements that ceil_mode adds beyond the padding count in averages only with `divisor_override`.
    if counts:
        inside = [size if divisor else min(size, before) for size, before in zip(extra, padding, strict=True)]
        whole = [(padding[0], max(inside[0], 0)), (padding[1], max(inside[1], 0))]
        image = padded(b, image, [(0, 0), *whole, (0, 0)], x.zero_point)
        pad = [0, extra[0] - whole[0][1], 0, extra[1] - whole[1][1]]
    return averages(b, Value(image, NHWC, x.quantization), kernel, stride, pad, divisor)


def _adaptive(b: Builder) -> Value:
    x = b.input()
    kernel = [size // count for size, count in zip(x.shape[2:], b.shape[2:], strict=True)]
    return averages(b, x, kernel, kernel, [0] * 4, None)


def _check_pool(query: NodeQuery) -> str | None:
    assert isinstance(query, Query)
    return None if len(query.sizes("self")) == 4 else "an input without batch"


def _check_adaptive(query: NodeQuery) -> str | None:
    assert isinstance(query, Query)
    sizes, counts = query.sizes("self")[-2:], query.node.meta["val"].shape[-2:]
    if any(size % count for size, count in zip(sizes, counts, strict=True)):
        return f"windows of different sizes, from {list(sizes)} to {list(counts)}"
    return _check_pool(query)


ROWS = (
    Row(aten.avg_pool2d.default, FLOAT, "4-d", _check_pool, True, _pool),
    Row(
        aten._adaptive_avg_pool2d.default,
        FLOAT,
        "4-d, to sizes that divide those of the image",
        _check_adaptive,
        False,
        _adaptive,
    ),
)
