"""Convolutions and linear layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from edgecore.sdk import NodeQuery, for_each
from edgecore_tosa.builder.builder import NHWC, Builder, Value
from edgecore_tosa.builder.operator_table import FLOAT, Query, Row, needs_more_than_u55, symmetric_weight
from edgecore_tosa.graph import Array, Tensor
from edgecore_tosa.quantization.scales import LIMITS
from edgecore_tosa.schema import ATTRIBUTES, Conv2d, DepthwiseConv2d, DType, Op, TransposeConv2d

aten = torch.ops.aten


def accumulator(dtype: DType) -> DType:
    """Return the dtype in which TOSA accumulates products of inputs of `dtype` and weights."""
    return {DType.INT8: DType.INT32, DType.INT16: DType.INT48}.get(dtype, DType.FP32)


class Layer:
    """The weight, bias and accumulator scale of a convolution or linear layer.

    Attributes:
        weight: The weight's elements in the model's dim order.
        weight_dtype: INT4 for integers from -7 to 7, if the input is int8 and the target has TOSA's extension int4;
            else the dtype of the weight.
        scales: The scale of the accumulator: one per output channel, or a single one; (1.0,) for floating point.
        accumulator: The dtype of the accumulator.
        output: The dtype of the bias and the unscaled result: the accumulator's, but float16 for float16 inputs.
    """

    def __init__(self, b: Builder, x: Value, weight: Value, bias: Array | None, channels: int) -> None:
        self._b = b
        assert weight.tensor.data is not None
        self.weight: Array = weight.tensor.data
        self.weight_dtype = DType.INT4 if _is_int4(b, x, weight) else weight.tensor.dtype
        self.scales: tuple[float, ...] = (1.0,)
        self.accumulator = accumulator(x.tensor.dtype)
        self.output = x.tensor.dtype if x.tensor.dtype == DType.FP16 else self.accumulator
        if x.quantization is not None and weight.quantization is not None:
            self.scales = tuple(x.quantization.step * scale for scale in weight.quantization.scales)
        self._bias = np.zeros(channels) if bias is None else bias
        self.zero_points = [b.number(x.zero_point, x.tensor.dtype), b.number(0, self.weight_dtype)]

    def bias(self, start: int = 0, stop: int | None = None) -> Tensor:
        """Return the bias of output channels `start` to `stop` as a constant, in the scale of the accumulator."""
        bias = self._bias[start:stop]
        if self.output not in (DType.FP32, DType.FP16):
            scales = np.array(self.scales)[start:stop] if len(self.scales) > 1 else np.array(self.scales)
            bias = np.rint(bias / scales)  # fits into 32 bits: edgecore's pass fit_scales has raised small scales
        return self._b.constant(bias, self.output)

    @property
    def scale(self) -> float | list[float]:
        """The scale of the accumulator, or a list of a scale per output channel, for `Builder.finish`."""
        return self.scale_of(slice(None))

    def scale_of(self, channels: slice) -> float | list[float]:
        """Return the accumulator's scale for some output channels, or a list with a scale per channel."""
        return list(self.scales[channels]) if len(self.scales) > 1 else self.scales[0]


def _is_int4(b: Builder, x: Value, weight: Value) -> bool:
    low, high = LIMITS[DType.INT4]
    quantization = weight.quantization
    is_narrow = quantization is not None and low <= quantization.low and quantization.high <= high
    return is_narrow and x.tensor.dtype == DType.INT8 and "int4" in b.spec.extensions


def exact_padding(size: int, kernel: int, stride: int, dilation: int, before: int, after: int) -> tuple[int, int]:
    """Return (padding at the end, elements to crop) for one dim of a convolution or pooling.

    TOSA requires that size + before + after - dilation * (kernel - 1) - 1 is a multiple of the stride, and PyTorch
    ignores the remainder of that division. So this remainder is subtracted from the padding, or, if the padding is
    smaller, cropped from the image.
    """
    rest = (size + before + after - dilation * (kernel - 1) - 1) % stride
    return max(after - rest, 0), max(rest - after, 0)


def crop(b: Builder, x: Tensor, cut: list[int]) -> Tensor:
    """Remove the last `cut[d]` indices of each spatial dim d of an NHWC image or NDHWC volume."""
    sizes = [size - rest for size, rest in zip(x.shape[1:-1], cut, strict=True)]
    return b.slice(x, [0] * x.rank, [x.shape[0], *sizes, x.shape[-1]])


def _convolution(b: Builder) -> Value:
    x, weight = b.input("input"), b.input("weight")
    dims = len(x.shape) - 2
    if dims == 3:
        return _volume(b)
    stride, padding, dilation = (_of_image(b, name, dims) for name in ("stride", "padding", "dilation"))
    order = (0, *range(2, 2 + dims), 1)
    image = b.read(x, order)
    shape = [b.shape[dim] for dim in order]
    channels = b.shape[1]
    layer = Layer(b, x, weight, b.real_constant(b.argument("bias")), channels)
    if dims == 1:  # compute a 1-d convolution on images of one row, because TOSA has only 2-d and 3-d ones
        image = b.reshape(image, (image.shape[0], 1, *image.shape[1:]))
        shape.insert(1, 1)
        layer.weight = np.expand_dims(layer.weight, 2)
    write = _transposed if b.argument("transposed") else _direct
    value = write(b, layer, image, (stride, padding, dilation), b.argument("groups"), shape)
    if dims == 2:
        return value
    return Value(b.reshape(value.tensor, [b.shape[dim] for dim in order]), order, value.quantization)


def _volume(b: Builder) -> Value:
    x, weight, order = b.input("input"), b.input("weight"), (0, 2, 3, 4, 1)
    layer = Layer(b, x, weight, b.real_constant(b.argument("bias")), b.shape[1])
    stride, padding, dilation = (list(for_each(b.argument(name), 3)) for name in ("stride", "padding", "dilation"))
    shape = [b.shape[dim] for dim in order]
    return _direct(b, layer, b.read(x, order), (stride, padding, dilation), b.argument("groups"), shape)


def _of_image(b: Builder, name: str, dims: int) -> list[int]:
    """Return an argument of a 1-d or 2-d convolution, such as its stride, as [number for rows, number for columns]."""
    numbers = list(for_each(b.argument(name), dims))
    return numbers if dims == 2 else [0 if name == "padding" else 1, *numbers]


_Form = tuple[list[int], list[int], list[int]]
"""(stride, padding, dilation) of a convolution: each is a list with a number per spatial dim."""


def _direct(b: Builder, layer: Layer, image: Tensor, form: _Form, groups: int, shape: Sequence[int]) -> Value:
    stride, padding, dilation = form
    kernel = layer.weight.shape[2:]
    order = (0, *range(2, 2 + len(kernel)), 1)
    pad, cut = [], []
    for dim in range(len(kernel)):
        after, rest = exact_padding(
            image.shape[1 + dim], kernel[dim], stride[dim], dilation[dim], padding[dim], padding[dim]
        )
        pad += [padding[dim], after]
        cut.append(rest)
    image = crop(b, image, cut)
    attribute: dict[str, Any] = {
        "pad": pad,
        "stride": stride,
        "dilation": dilation,
        "acc_type": layer.accumulator,
    }
    # In a depthwise convolution, the weight has the shape (channels * multiplier, 1, H, W).
    if groups == image.shape[-1] and groups > 1 and len(kernel) == 2:
        filters = layer.weight.reshape(groups, shape[-1] // groups, *kernel).transpose(2, 3, 0, 1)
        inputs = [image, b.constant(filters, layer.weight_dtype), layer.bias(), *layer.zero_points]
        result = b.emit(Op.DEPTHWISE_CONV2D, inputs, shape, layer.output, DepthwiseConv2d(**attribute))
        return b.finish(result, layer.scale, NHWC)
    op = Op.CONV2D if len(kernel) == 2 else Op.CONV3D
    parts = [part.transpose(order) for part in np.split(layer.weight, groups)]
    return _by_group(b, layer, image, parts, shape, op, ATTRIBUTES[op](**attribute))


def _by_group(
    b: Builder, layer: Layer, image: Tensor, filters: Sequence[Array], shape: Sequence[int], op: Op, attribute: Any
) -> Value:
    """Emit a convolution once per group of channels, and concatenate the results.

    Each result is scaled before the concatenation, because CONCAT does not support INT48, in which products of int16
    accumulate.
    """
    inside, outside = image.shape[-1] // len(filters), shape[-1] // len(filters)
    order = (0, *range(2, image.rank), 1)
    parts: list[Value] = []
    for group, elements in enumerate(filters):
        part = b.slice(image, [*[0] * (image.rank - 1), group * inside], [*image.shape[:-1], inside])
        own = slice(group * outside, (group + 1) * outside)
        inputs = [part, b.constant(elements, layer.weight_dtype), layer.bias(own.start, own.stop), *layer.zero_points]
        result = b.emit(op, inputs, (*shape[:-1], outside), layer.output, attribute)
        parts.append(b.finish(result, layer.scale_of(own), order))
    return replace(parts[0], tensor=b.concat([value.tensor for value in parts], image.rank - 1))


_STRIDES_OF_U55 = ([1, 1], [2, 2])


def _transposed(b: Builder, layer: Layer, image: Tensor, form: _Form, groups: int, shape: Sequence[int]) -> Value:
    """Emit a transposed convolution; if the target lacks it, emit a convolution of the image with zeros inserted.

    The weight is [input channels, output channels / groups, H, W].
    """
    stride, padding, _ = form
    weight, kernel, pad = layer.weight, layer.weight.shape[2:], []
    attribute: TransposeConv2d | Conv2d
    if not b.spec.is_u55 or (stride in _STRIDES_OF_U55 and image.dtype == DType.INT8):
        for dim, cut in enumerate(padding):
            pad += [-cut, shape[1 + dim] - (image.shape[1 + dim] - 1) * stride[dim] - kernel[dim] + cut]
        op, attribute = Op.TRANSPOSE_CONV2D, TransposeConv2d(pad, stride, acc_type=layer.accumulator)
    else:
        image = _spread(b, image, stride, layer.zero_points[0])
        after = [shape[1 + dim] - image.shape[1 + dim] + cut for dim, cut in enumerate(padding)]
        image = crop(b, image, [max(-rows, 0) for rows in after])
        for dim, cut in enumerate(padding):
            pad += [kernel[dim] - 1 - cut, max(after[dim], 0)]
        weight = weight[:, :, ::-1, ::-1]
        op, attribute = Op.CONV2D, Conv2d(pad, [1, 1], [1, 1], acc_type=layer.accumulator)
    filters = [part.transpose(1, 2, 3, 0) for part in np.split(weight, groups)]
    return _by_group(b, layer, image, filters, shape, op, attribute)


def _spread(b: Builder, image: Tensor, stride: Sequence[int], zero_point: Tensor) -> Tensor:
    """Insert `stride - 1` zero rows after each row of an NHWC image, and likewise zero columns after each column."""
    n, height, width, channels = image.shape
    for pixels, size, count in (
        (n * height * width, channels, stride[1]),
        (n * height, width * stride[1] * channels, stride[0]),
    ):
        if count > 1:
            parts = b.reshape(image, (pixels, 1, size))
            border = b.sizes([0, 0, 0, count - 1, 0, 0])
            image = b.emit(Op.PAD, [parts, border, zero_point], (pixels, count, size), image.dtype)
    return b.reshape(image, (n, height * stride[0], width * stride[1], channels))


def _linear(b: Builder) -> Value:
    """Emit a linear layer as a 1 x 1 convolution of an image, [1, input rows, 1, features]."""
    x, weight = b.input("input"), b.input("weight")
    layer = Layer(b, x, weight, b.real_constant(b.argument("bias")), b.shape[-1])
    features = x.shape[-1]
    rows = b.read(x)
    image = b.reshape(rows, (1, rows.elements // features, 1, features))
    filters = b.constant(layer.weight.reshape(-1, 1, 1, features), layer.weight_dtype)
    attribute = Conv2d(pad=[0] * 4, stride=[1, 1], dilation=[1, 1], acc_type=layer.accumulator)
    inputs = [image, filters, layer.bias(), *layer.zero_points]
    result = b.emit(Op.CONV2D, inputs, (*image.shape[:3], b.shape[-1]), layer.output, attribute)
    finished = b.finish(result, layer.scale, range(4))
    tensor = b.reshape(finished.tensor, b.shape)
    return Value(tensor, tuple(range(len(b.shape))), finished.quantization)


def _check_convolution(query: NodeQuery) -> str | None:
    assert isinstance(query, Query)
    if len(query.sizes("input")) == 5:
        if query.spec.is_u55:
            return "a volume, which Ethos-U55 and U65 cannot convolve"
        return "a transposed convolution of a volume" if query.argument("transposed") else _check_volume(query)
    reason = _check_transposed(query) if query.argument("transposed") else symmetric_weight(query, "weight", 0)
    return reason or constant_bias(query)


def _check_transposed(query: Query) -> str | None:
    dims, groups = len(query.sizes("input")) - 2, query.argument("groups")
    padding, dilation = (for_each(query.argument(name), dims) for name in ("padding", "dilation"))
    kernel = query.sizes("weight")[2:]
    if set(dilation) != {1}:
        return "transposed with dilation"
    if any(cut >= size for cut, size in zip(padding, kernel, strict=True)):
        return "transposed with padding of the kernel's size or more"
    if groups > _MAX_GROUPS:
        return f"transposed with {groups} groups, more than {_MAX_GROUPS}"
    # With several groups, dim 1 of the weight has only the output channels of one group, so there can be no scale per
    # index of this dim.
    return symmetric_weight(query, "weight", *([1] if groups == 1 else []))


_MAX_GROUPS = 8
"""Maximum number of groups of a transposed convolution, since each becomes a separate operator."""


def _check_volume(query: NodeQuery) -> str | None:
    assert isinstance(query, Query)
    if len(query.sizes("input")) != 5:
        return "an input without batch"
    return symmetric_weight(query, "weight", 0) or constant_bias(query)


def _check_linear(query: NodeQuery) -> str | None:
    assert isinstance(query, Query)
    return symmetric_weight(query, "weight", 0) or constant_bias(query)


def constant_bias(query: Query) -> str | None:
    """Return a reason if the bias of a layer is not a constant; None if it is constant or missing."""
    bias = query.argument("bias")
    return "its bias is not a constant" if bias is not None and not query.is_constant(bias) else None


ROWS = (
    Row(
        aten.convolution.default,
        FLOAT,
        "constant weight and bias; transposed: no volume, no dilation, up to 8 groups",
        _check_convolution,
        True,
        _convolution,
        ("bias",),
        on_u55="no volume; constant weight and bias; transposed: no dilation, up to 8 groups",
    ),
    Row(
        aten.conv3d.default,
        FLOAT,
        "5-d; constant weight and bias",
        _check_volume,
        True,
        _volume,
        ("bias",),
        lacks=needs_more_than_u55,
    ),
    Row(aten.linear.default, FLOAT, "constant weight and bias", _check_linear, True, _linear, ("bias",)),
)
