"""Maximum pooling."""

from __future__ import annotations

import torch

from edgecore.sdk import NodeQuery, for_each
from edgecore_tosa.builder.builder import NHWC, Builder, Value
from edgecore_tosa.builder.operator_table import FLOAT, Query, Row
from edgecore_tosa.operators.convolution import crop
from edgecore_tosa.schema import MaxPool2d, NanMode, Op

aten = torch.ops.aten


def _max_pool(b: Builder) -> Value:
    x = b.convert(b.input(), b.quantization)
    image = b.read(x, NHWC)
    kernel = for_each(b.argument("kernel_size"), 2)
    stride = for_each(b.argument("stride") or kernel, 2)
    padding = for_each(b.argument("padding"), 2)
    pad, cut = [], []
    for dim in range(2):
        size, needed = image.shape[1 + dim], (b.shape[2 + dim] - 1) * stride[dim] + kernel[dim]
        # Compute the padding after the last row or column. It is negative if no window reaches the last rows, and may
        # exceed `padding` with ceil_mode.
        after = needed - size - padding[dim]
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


ROWS = (Row(aten.max_pool2d.default, FLOAT, "4-d, dilation 1", _check_max_pool, True, _max_pool),)
