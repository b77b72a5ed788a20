"""The numbers of TOSA 1.0 in numpy, and the operators that move a window or multiply matrices; see `tosa_numpy`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from edgecore_tosa.graph import NUMPY, Array, Operator
from edgecore_tosa.schema import DType, NanMode, Op, ResizeMode

FLOATS = (DType.FP32, DType.FP16, DType.BF16)
RANGES = {
    DType.INT4: (-7, 7),
    DType.INT8: (-(2**7), 2**7 - 1),
    DType.INT16: (-(2**15), 2**15 - 1),
    DType.INT32: (-(2**31), 2**31 - 1),
    DType.INT48: (-(2**47), 2**47 - 1),
}
PADDING_VALUE = -(2**62)


class UndefinedResult(Exception):
    """The specification does not define the result for these inputs."""


def require(condition: bool, what: str) -> None:
    """Check a REQUIRE of the specification."""
    if not condition:
        raise UndefinedResult(what)


def held(array: Array, dtype: DType) -> Array:
    """Return an array as it is computed with: bool, int64 or float64."""
    if dtype == DType.BOOL:
        return array
    if dtype == DType.BF16:
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64 if dtype in FLOATS else np.int64)


def rounded(values: Array, dtype: DType, what: str) -> Array:
    """Return a result in the dtype of its tensor: integers must be in its range, real numbers are rounded to it."""
    if dtype in FLOATS:
        return held(returned(values, dtype), dtype)
    if dtype == DType.BOOL:
        return values.astype(np.bool_)
    low, high = RANGES[dtype]
    require(bool(((values >= low) & (values <= high)).all()), f"{what}: a result beyond {dtype.name}")
    return values.astype(np.int64)


def returned(values: Array, dtype: DType) -> Array:
    """Return an array as users of a graph hold it."""
    if dtype != DType.BF16:
        with np.errstate(all="ignore"):
            return np.asarray(values, NUMPY[dtype], order="C")
    with np.errstate(all="ignore"):
        wide = np.ascontiguousarray(values).astype(np.float32).view(np.uint32)
    bits = ((wide + 0x7FFF + (wide >> 16 & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), bits)


def scale_32(value: Array, multiplier: Array, shift: Array, double_round: bool = False) -> Array:
    """apply_scale_32: value * multiplier * 2**-shift, rounded, which must fit 32 bits."""
    limit = np.int64(1) << (shift - 1)
    require(bool(((value >= -limit) & (value < limit)).all()), "apply_scale_32: a value beyond the shift")
    half = np.broadcast_to(limit, value.shape)
    if double_round:
        half = half + np.where(shift > 31, np.where(value >= 0, 1 << 30, -(1 << 30)), 0)
    return _scaled(value * multiplier, half, shift)


def scale_16(value: Array, multiplier: Array, shift: Array) -> Array:
    """apply_scale_16, for values of 48 bits and multipliers of 16."""
    return _scaled(value * multiplier, np.int64(1) << (shift - 1), shift)


def _scaled(products: Array, half: Array, shift: Array) -> Array:
    result = (products + half) >> shift
    low, high = RANGES[DType.INT32]
    require(bool(((result >= low) & (result <= high)).all()), "RESCALE: a scaled value beyond int32")
    return result


# ---- windows


def windows(image: Array, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Array:
    """Return (n, *output positions, *kernel positions, channels) of a padded image (n, *sizes, channels)."""
    counts = [
        (size - reach * (length - 1) - 1) // step + 1
        for size, length, step, reach in zip(image.shape[1:-1], kernel, stride, dilation, strict=True)
    ]
    result = np.empty((image.shape[0], *counts, *kernel, image.shape[-1]), image.dtype)
    whole = (slice(None),) * (1 + len(counts))
    for position in product(*(range(length) for length in kernel)):
        part = tuple(
            slice(at * reach, at * reach + (count - 1) * step + 1, step)
            for at, reach, count, step in zip(position, dilation, counts, stride, strict=True)
        )
        result[whole + position] = image[(slice(None), *part)]
    return result


def padded(image: Array, pad: Sequence[int], value: Any) -> Array:
    """Return an image (n, *sizes, channels) with a border."""
    pairs = [(0, 0), *((pad[dim], pad[dim + 1]) for dim in range(0, len(pad), 2)), (0, 0)]
    return np.pad(image, pairs, constant_values=value)


def exact(call: Operator, image: Array, kernel: Sequence[int], dilation: Sequence[int]) -> None:
    """Check that the windows cover the padded image to its end."""
    pad, stride = call.attribute.pad, call.attribute.stride
    for dim, (length, step, reach) in enumerate(zip(kernel, stride, dilation, strict=True)):
        size = image.shape[1 + dim] + pad[2 * dim] + pad[2 * dim + 1] - reach * (length - 1) - 1
        assert size >= 0 and size % step == 0, (call.op.name, dim, size, step)


def accumulated(call: Operator, products: Array, bias: Array | None) -> Array:
    """Return the sums of products over the last dim, with a bias; integers must fit the accumulator at each step."""
    if products.dtype != np.float64:
        low, high = RANGES[call.output.dtype]
        start = 0 if bias is None else bias
        # Any order of summation is allowed, so the greatest partial sums count.
        require(bool((np.maximum(products, 0).sum(-1) + np.maximum(start, 0) <= high).all()), "an overflow of the sums")
        require(bool((np.minimum(products, 0).sum(-1) + np.minimum(start, 0) >= low).all()), "an overflow of the sums")
    total = products.sum(-1)
    return total if bias is None else total + bias


def _convolution(call, image, weight, bias, image_zero, weight_zero):
    attribute, kernel = call.attribute, weight.shape[1:-1]
    exact(call, image, kernel, attribute.dilation)
    form = (kernel, attribute.stride, attribute.dilation)
    parts = windows(padded(image - image_zero, attribute.pad, 0), *form)
    parts = parts.reshape(*parts.shape[: 1 + len(kernel)], 1, -1)
    return accumulated(call, parts * (weight - weight_zero).reshape(weight.shape[0], -1), bias)


def _depthwise(call, image, weight, bias, image_zero, weight_zero):
    attribute, (height, width, channels, multiplier) = call.attribute, weight.shape
    exact(call, image, (height, width), attribute.dilation)
    form = ((height, width), attribute.stride, attribute.dilation)
    parts = windows(padded(image - image_zero, attribute.pad, 0), *form)  # n, y, x, ky, kx, c
    n, rows, columns = parts.shape[:3]
    products = parts[..., None] * (weight - weight_zero)
    products = products.reshape(n, rows, columns, height * width, channels * multiplier)
    return accumulated(call, np.moveaxis(products, 3, -1), bias)


def _transposed(call, image, weight, bias, image_zero, weight_zero):
    attribute, (channels, height, width, _) = call.attribute, weight.shape
    top, bottom, left, right = attribute.out_pad
    step = attribute.stride
    n, rows, columns = image.shape[:3]
    shape = ((rows - 1) * step[0] + top + bottom + height, (columns - 1) * step[1] + left + right + width)
    # The result with the rows and columns that a negative padding cuts off.
    cut, offset = [max(-top, 0), max(-left, 0)], [max(top, 0), max(left, 0)]
    room = [max(size, length) + extra for size, length, extra in zip(shape, (height, width), cut, strict=True)]
    room[0] += max(-bottom, 0)
    room[1] += max(-right, 0)
    whole = np.zeros((n, *room, channels), image.dtype)
    for y, x, ky, kx in product(range(rows), range(columns), range(height), range(width)):
        part = (image - image_zero)[:, y, x] @ (weight - weight_zero)[:, ky, kx].T
        whole[:, offset[0] + y * step[0] + ky, offset[1] + x * step[1] + kx] += part
    return whole[:, cut[0] : cut[0] + shape[0], cut[1] : cut[1] + shape[1]] + bias


def _matmul(call, a, b, a_zero, b_zero):
    products = (a - a_zero)[:, :, None, :] * np.swapaxes(b - b_zero, 1, 2)[:, None, :, :]
    return accumulated(call, products, None)


def _average_pool(call, image, input_zero, output_zero):
    attribute = call.attribute
    exact(call, image, attribute.kernel, (1, 1))
    form = (attribute.kernel, attribute.stride, (1, 1))
    total = windows(padded(image - input_zero, attribute.pad, 0), *form).sum((3, 4))
    count = windows(padded(np.ones_like(image, np.int64), attribute.pad, 0), *form).sum((3, 4))
    if total.dtype == np.float64:
        return total / count
    bits = np.array([int(number - 1).bit_length() for number in count.reshape(-1)], np.int64).reshape(count.shape)
    multiplier = (((1 << 30) + 1) << bits) // count  # reciprocal_scale
    return np.clip(scale_32(total, multiplier, 30 + bits) + output_zero, *RANGES[call.output.dtype])


def _max_pool(call, image):
    attribute = call.attribute
    exact(call, image, attribute.kernel, (1, 1))
    form = (attribute.kernel, attribute.stride, (1, 1))
    if image.dtype != np.float64:
        return windows(padded(image, attribute.pad, PADDING_VALUE), *form).max((3, 4))
    parts = windows(padded(image, attribute.pad, -np.inf), *form)
    if attribute.nan_mode == NanMode.IGNORE:
        parts = np.where(np.isnan(parts), -np.inf, parts)
    return parts.max((3, 4))


def _resize_axis(size: int, count: int, up: int, down: int, offset: int) -> tuple[Array, Array, Array]:
    """Return (first index, second index, distance from the first in steps of 1 / up) of the result's positions."""
    position = np.arange(count) * down + offset
    index = position // up
    first, second = np.clip(index, 0, size - 1), np.clip(index + 1, 0, size - 1)
    return first, second, position - index * up


def _resize(call, image, scale, offset, border):
    up_y, down_y, up_x, down_x = (int(number) for number in scale)
    for size, count, up, down, start, end in (
        (image.shape[1], call.output.shape[1], up_y, down_y, offset[0], border[0]),
        (image.shape[2], call.output.shape[2], up_x, down_x, offset[1], border[1]),
    ):
        assert (count - 1) * down == (size - 1) * up - start + end, "RESIZE: the size of the result"
    y0, y1, dy = _resize_axis(image.shape[1], call.output.shape[1], up_y, down_y, int(offset[0]))
    x0, x1, dx = _resize_axis(image.shape[2], call.output.shape[2], up_x, down_x, int(offset[1]))
    if call.attribute.mode == ResizeMode.NEAREST:
        return image[:, np.where(2 * dy >= up_y, y1, y0)][:, :, np.where(2 * dx >= up_x, x1, x0)]
    dy, dx = dy[:, None, None], dx[:, None]
    if image.dtype == np.float64:
        dy, dx, up_y, up_x = dy / up_y, dx / up_x, 1, 1
    top = image[:, y0][:, :, x0] * (up_x - dx) + image[:, y0][:, :, x1] * dx
    bottom = image[:, y1][:, :, x0] * (up_x - dx) + image[:, y1][:, :, x1] * dx
    return top * (up_y - dy) + bottom * dy


OPERATORS: dict[Op, Callable[..., Array]] = {
    Op.CONV2D: _convolution,
    Op.CONV3D: _convolution,
    Op.DEPTHWISE_CONV2D: _depthwise,
    Op.TRANSPOSE_CONV2D: _transposed,
    Op.MATMUL: _matmul,
    Op.AVG_POOL2D: _average_pool,
    Op.MAX_POOL2D: _max_pool,
    Op.RESIZE: _resize,
}
