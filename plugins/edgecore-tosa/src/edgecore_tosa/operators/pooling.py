"""Pooling, and means over the rows and columns of images."""

from __future__ import annotations

import numpy as np
import torch

from edgecore.sdk import NodeQuery, for_each
from edgecore_tosa.builder import NHWC, Builder, Value
from edgecore_tosa.operators.convolution import accumulator, crop
from edgecore_tosa.operators.table import FLOAT, Query, Row
from edgecore_tosa.schema import AvgPool2d, DepthwiseConv2d, DType, MaxPool2d, NanMode, Op

aten = torch.ops.aten


def _mean(b: Builder) -> Value:
    """The mean of rows and columns: one window over the whole image.

    The mean of integers is their sum, of 32 bits, with a smaller scale; AVG_POOL2D would round it to the step of the
    image, which can be several times that of the result. The sum is a depthwise convolution with a kernel of ones.
    """
    x = b.input()
    image = b.read(x, NHWC)
    n, height, width, channels = image.shape
    if x.quantization is None or x.quantization == b.quantization:
        sums = DType.FP32 if x.quantization is None else DType.INT32
        attribute = AvgPool2d([height, width], [1, 1], [0] * 4, sums)
        zero = b.number(x.zero_point, image.dtype)
        tensor = b.emit(Op.AVG_POOL2D, [image, zero, zero], (n, 1, 1, channels), image.dtype, attribute)
        value = Value(tensor, NHWC, x.quantization)
    else:
        form = DepthwiseConv2d([0] * 4, [1, 1], [1, 1], acc_type=accumulator(image.dtype))
        ones = b.constant(np.ones((height, width, channels, 1)), DType.INT8)
        zeros = b.constant(np.zeros(channels), form.acc_type)
        inputs = [image, ones, zeros, b.number(x.zero_point, image.dtype), b.number(0, DType.INT8)]
        total = b.emit(Op.DEPTHWISE_CONV2D, inputs, (n, 1, 1, channels), form.acc_type, form)
        value = b.finish(total, x.quantization.step / (height * width), NHWC)
    if b.argument("keepdim"):
        return value
    return Value(b.reshape(value.tensor, (n, channels)), (0, 1), value.quantization)


def _check_mean(query: NodeQuery) -> str | None:
    assert isinstance(query, Query)
    sizes = query.sizes("self")
    dims = {dim % len(sizes) for dim in query.argument("dim") or range(len(sizes))}
    return None if len(sizes) == 4 and dims == {2, 3} else "not over the rows and columns of images"


def _max_pool(b: Builder) -> Value:
    x = b.convert(b.input(), b.quantization)
    image = b.read(x, NHWC)
    kernel = for_each(b.argument("kernel_size"), 2)
    stride = for_each(b.argument("stride") or kernel, 2)
    padding = for_each(b.argument("padding"), 2)
    pad, cut = [], []
    for dim in range(2):
        size, needed = image.shape[1 + dim], (b.shape[2 + dim] - 1) * stride[dim] + kernel[dim]
        after = needed - size - padding[dim]  # negative where rows are left over, larger than the padding for ceil_mode
        pad += [padding[dim], max(after, 0)]
        cut.append(max(-after, 0))
    image = crop(b, image, cut)
    attribute = MaxPool2d(list(kernel), list(stride), pad, NanMode.PROPAGATE)
    shape = (b.shape[0], b.shape[2], b.shape[3], b.shape[1])
    return Value(b.emit(Op.MAX_POOL2D, [image], shape, image.dtype, attribute), NHWC, x.quantization)


def _check_max_pool(query: NodeQuery) -> str | None:
    assert isinstance(query, Query)
    if len(query.sizes("self")) != 4:
        return "an input without batch"
    if set(for_each(query.argument("dilation"), 2)) != {1}:
        return "dilation is not 1"
    return None


ROWS = (
    Row(aten.mean.dim, FLOAT, "over the rows and columns of images", _check_mean, False, _mean),
    Row(aten.max_pool2d.default, FLOAT, "4-d, dilation 1", _check_max_pool, True, _max_pool),
)  # fmt: skip
