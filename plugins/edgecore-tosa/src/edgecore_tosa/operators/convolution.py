"""Convolutions and linear layers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from edgecore.sdk import NodeQuery, for_each
from edgecore_tosa.builder import NHWC, Builder, Value
from edgecore_tosa.graph import Array, Tensor
from edgecore_tosa.operators.table import FLOAT, Query, Row, symmetric_weight
from edgecore_tosa.schema import Conv2d, DepthwiseConv2d, DType, Op

aten = torch.ops.aten


def accumulator(dtype: DType) -> DType:
    """Return the type of sums of products of numbers of a type and a weight."""
    return {DType.INT8: DType.INT32, DType.INT16: DType.INT48}.get(dtype, DType.FP32)


class Layer:
    """The operands of a layer with a weight: the numbers of its weight and bias, and the scale of its sums.

    Attributes:
        weight: The weight's tensor elements, in the order of the model.
        weight_dtype: Their type.
        scales: The scale of the accumulator: one for each output channel, or a single one; (1.0,) for real numbers.
    """

    def __init__(self, b: Builder, x: Value, weight: Value, bias: Array | None, channels: int) -> None:
        self._b = b
        assert weight.tensor.data is not None
        self.weight: Array = weight.tensor.data
        self.weight_dtype = weight.tensor.dtype
        self.scales: tuple[float, ...] = (1.0,)
        self.accumulator = accumulator(x.tensor.dtype)
        if x.quantization is not None and weight.quantization is not None:
            self.scales = tuple(x.quantization.step * scale for scale in weight.quantization.scales)
        self._bias = np.zeros(channels) if bias is None else bias
        self.zero_points = [b.number(x.zero_point, x.tensor.dtype), b.number(0, self.weight_dtype)]

    def bias(self, start: int = 0, stop: int | None = None) -> Tensor:
        """Return the bias of output channels as a constant of the accumulator's type."""
        bias = self._bias[start:stop]
        if self.accumulator != DType.FP32:
            scales = np.array(self.scales)[start:stop] if len(self.scales) > 1 else np.array(self.scales)
            limit = 2**31 - 1 if self.accumulator == DType.INT32 else 2**47 - 1
            bias = np.clip(np.rint(bias / scales), -limit - 1, limit)
        return self._b.constant(bias, self.accumulator)

    @property
    def scale(self) -> float | list[float]:
        """The scale of the accumulator, as `Builder.finish` takes it."""
        return self.scale_of(slice(None))

    def scale_of(self, channels: slice) -> float | list[float]:
        """Return the scale of the accumulator of output channels."""
        return list(self.scales[channels]) if len(self.scales) > 1 else self.scales[0]


def exact_padding(size: int, kernel: int, stride: int, dilation: int, before: int, after: int) -> tuple[int, int]:
    """Return (padding after, elements to cut off) of one dim of a convolution or pooling.

    TOSA demands that the window fits exactly: (size + before + after - dilation * (kernel - 1) - 1) is a multiple of the
    stride. PyTorch ignores what is left over.
    """
    rest = (size + before + after - dilation * (kernel - 1) - 1) % stride
    return max(after - rest, 0), max(rest - after, 0)


def crop(b: Builder, x: Tensor, cut: list[int]) -> Tensor:
    """Return an image, NHWC, without its last rows and columns."""
    shape = [x.shape[0], x.shape[1] - cut[0], x.shape[2] - cut[1], x.shape[3]]
    return b.slice(x, [0] * 4, shape)


def _convolution(b: Builder) -> Value:
    x, weight = b.input("input"), b.input("weight")
    stride, padding, dilation = (for_each(b.argument(name), 2) for name in ("stride", "padding", "dilation"))
    groups, bias = b.argument("groups"), b.real_constant(b.argument("bias"))
    image = b.read(x, NHWC)
    layer = Layer(b, x, weight, bias, b.shape[1])
    kernel = layer.weight.shape[2:]
    pad, cut = [], []
    for dim in range(2):
        after, rest = exact_padding(
            image.shape[1 + dim], kernel[dim], stride[dim], dilation[dim], padding[dim], padding[dim]
        )
        pad += [padding[dim], after]
        cut.append(rest)
    image = crop(b, image, cut)
    shape = (b.shape[0], b.shape[2], b.shape[3], b.shape[1])
    form: dict[str, Any] = {
        "pad": pad,
        "stride": list(stride),
        "dilation": list(dilation),
        "acc_type": layer.accumulator,
    }
    if groups == image.shape[3] and groups > 1:  # the filters are (channel * multiplier, 1, H, W)
        multiplier = b.shape[1] // groups
        filters = layer.weight.reshape(groups, multiplier, *kernel).transpose(2, 3, 0, 1)
        inputs = [image, b.constant(filters, layer.weight_dtype), layer.bias(), *layer.zero_points]
        result = b.emit(Op.DEPTHWISE_CONV2D, inputs, shape, layer.accumulator, DepthwiseConv2d(**form))
        return b.finish(result, layer.scale, NHWC)
    parts: list[Value] = []
    inside, outside = image.shape[3] // groups, b.shape[1] // groups
    for group in range(groups):
        part = b.slice(image, [0, 0, 0, group * inside], [*image.shape[:3], inside])
        own = slice(group * outside, (group + 1) * outside)
        filters = layer.weight[own].transpose(0, 2, 3, 1)
        inputs = [part, b.constant(filters, layer.weight_dtype), layer.bias(own.start, own.stop), *layer.zero_points]
        result = b.emit(Op.CONV2D, inputs, (*shape[:3], outside), layer.accumulator, Conv2d(**form))
        parts.append(b.finish(result, layer.scale_of(own), NHWC))  # CONCAT has no INT48, the accumulator of int16
    return replace(parts[0], tensor=b.concat([value.tensor for value in parts], 3))


def _linear(b: Builder) -> Value:
    """A linear layer as a convolution with a kernel of one element over an image with a row for each input row."""
    x, weight = b.input("input"), b.input("weight")
    layer = Layer(b, x, weight, b.real_constant(b.argument("bias")), b.shape[-1])
    features = x.shape[-1]
    rows = b.read(x)
    image = b.reshape(rows, (1, rows.elements // features, 1, features))
    filters = b.constant(layer.weight.reshape(-1, 1, 1, features), layer.weight_dtype)
    attribute = Conv2d(pad=[0] * 4, stride=[1, 1], dilation=[1, 1], acc_type=layer.accumulator)
    inputs = [image, filters, layer.bias(), *layer.zero_points]
    result = b.emit(Op.CONV2D, inputs, (*image.shape[:3], b.shape[-1]), layer.accumulator, attribute)
    finished = b.finish(result, layer.scale, range(4))
    tensor = b.reshape(finished.tensor, b.shape)
    return Value(tensor, tuple(range(len(b.shape))), finished.quantization)


def _check_convolution(query: NodeQuery) -> str | None:
    assert isinstance(query, Query)
    if query.argument("transposed"):
        return "transposed"
    if len(query.sizes("input")) != 4:
        return f"an input with {len(query.sizes('input'))} dims, not 4"
    return symmetric_weight(query, "weight", 0) or constant_bias(query)


def _check_linear(query: NodeQuery) -> str | None:
    assert isinstance(query, Query)
    return symmetric_weight(query, "weight", 0) or constant_bias(query)


def constant_bias(query: Query) -> str | None:
    """Return a reason if the bias of a layer is computed, or None."""
    bias = query.argument("bias")
    return "its bias is not a constant" if bias is not None and not query.is_constant(bias) else None


ROWS = (
    Row(aten.convolution.default, FLOAT, "2-d; constant weight and bias", _check_convolution, False, _convolution,
        ("bias",)),
    Row(aten.linear.default, FLOAT, "constant weight and bias", _check_linear, True, _linear, ("bias",)),
)  # fmt: skip
