"""Decompositions of pooling operators into 2-d pooling, for which every runtime has kernels, and of their gradients.

Each function has the arguments of its ATen operator, and `decompose` traces the function. 3-d average and maximum
pooling are in `volumes.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.fx import Node

from edgecore.ir.graph import for_each
from edgecore.ir.op_args import argument
from edgecore.passes.decompose.decompositions.various import decomposes, is_empty

aten = torch.ops.aten

Numbers = Sequence[int]


def has_static_space(node: Node) -> bool:
    """Return True if the pooled dims (the last two, or the last three for 3-d pooling) have static sizes."""
    dims = 3 if "3d" in str(node.target) else 2
    return all(isinstance(size, int) for size in argument(node, "self").meta["val"].shape[-dims:])


@decomposes(aten.avg_pool1d.default)
def _average_pool_1d(
    value: Tensor,
    kernel_size: Numbers,
    stride: Numbers = (),
    padding: Numbers = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Average windows of a row [..., W] by pooling an image of height 1, [..., 1, W]."""
    kernel, steps, pads = (for_each(value, 1) for value in (kernel_size, stride or kernel_size, padding))
    image = value.unsqueeze(-2)
    pooled = aten.avg_pool2d.default(image, [1, *kernel], [1, *steps], [0, *pads], ceil_mode, count_include_pad)
    return pooled.squeeze(-2)  # type: ignore[no-any-return]


@decomposes(aten.adaptive_avg_pool1d.default)
def _adaptive_average_pool_1d(value: Tensor, output_size: Numbers) -> Tensor:
    """Average a row [..., W] to `output_size` by pooling an image of height 1, [..., 1, W]."""
    if list(output_size) == [1]:
        return value.mean(-1, keepdim=True)
    pooled: Tensor = aten._adaptive_avg_pool2d.default(value.unsqueeze(-2), [1, *output_size])
    return pooled.squeeze(-2)


def _adaptive_windows(size: int, count: int) -> tuple[Tensor, Tensor]:
    """Return the begin and end (exclusive) of each of `count` adaptive windows over `size` elements."""
    index = torch.arange(count)
    start = torch.div(index * size, count, rounding_mode="floor")
    end = torch.div((index + 1) * size + count - 1, count, rounding_mode="floor")
    return start, end


def _windows_of_equal_size(image: Tensor, dim: int, count: int) -> tuple[Tensor, int, Tensor | None]:
    """Place adaptive windows along `dim` side by side, for pooling with a stride equal to the size of a window.

    A window that is smaller than the others repeats its last element. This changes neither the maximum nor its index,
    because the first of equal elements counts.

    Returns:
        The tensor, the size of a window, and for each element of the tensor along `dim` its index in `image`. The
        indices are None if the tensor is `image` itself.
    """
    size = image.shape[dim]
    if size % count == 0:
        return image, size // count, None
    window = max(-(-(index + 1) * size // count) - index * size // count for index in range(count))
    start, end = _adaptive_windows(size, count)
    places = torch.minimum(start.unsqueeze(1) + torch.arange(window), end.unsqueeze(1) - 1).flatten()
    return image.index_select(dim, places), window, places


@decomposes(aten.adaptive_max_pool2d.default, applies=has_static_space)
def adaptive_max_pool_2d(value: Tensor, output_size: Numbers) -> tuple[Tensor, Tensor]:
    """Pool windows made equally large by repeated elements; return the maxima, and their indices in `value`."""
    height, width = for_each(output_size, 2)
    if is_empty(height, width, *value.shape):
        shape = (*value.shape[:-2], height, width)
        return value.new_zeros(shape), value.new_zeros(shape, dtype=torch.int64)
    image = value if value.dim() == 4 else value.unsqueeze(0)
    image, rows_of_window, rows = _windows_of_equal_size(image, -2, height)
    image, columns_of_window, columns = _windows_of_equal_size(image, -1, width)
    maxima, indices = aten.max_pool2d_with_indices.default(image, [rows_of_window, columns_of_window])
    if rows is not None or columns is not None:
        row = torch.div(indices, image.shape[-1], rounding_mode="floor")
        column = indices - row * image.shape[-1]
        row = row if rows is None else rows[row]
        column = column if columns is None else columns[column]
        indices = row * value.shape[-1] + column
    shape = (*value.shape[:-2], height, width)
    return maxima.reshape(shape), indices.reshape(shape)


def _average_weights(size: int, start: Tensor, end: Tensor, divisor: Tensor) -> Tensor:
    """Return the matrix [windows, size] that adds the elements of each window and divides the sum by its `divisor`."""
    place = torch.arange(size)
    inside = torch.logical_and(place >= start.unsqueeze(1), place < end.unsqueeze(1))
    return inside.to(torch.float64) / divisor.unsqueeze(1)


def _gradient_of_average(grad: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return rows^T @ grad @ columns, the gradient of the average over windows, rows @ image @ columns^T."""
    return rows.to(grad.dtype).t() @ grad @ columns.to(grad.dtype)


def average_windows(
    size: int, count: int, kernel: int, stride: int, padding: int, count_include_pad: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """For each of `count` windows over `size` elements, return its begin, its end, and the divisor of its average."""
    start = torch.arange(count) * stride - padding
    end = torch.clamp(start + kernel, max=size + padding)
    inside = torch.clamp(end, max=size) - torch.clamp(start, min=0)
    return start, end, end - start if count_include_pad else inside


@decomposes(aten._adaptive_avg_pool2d_backward.default, applies=has_static_space)
def _adaptive_average_pool_backward(grad: Tensor, value: Tensor) -> Tensor:
    """Multiply the gradient by the matrices that averaged the rows and the columns."""
    weights = []
    for size, count in zip(value.shape[-2:], grad.shape[-2:], strict=True):
        start, end = _adaptive_windows(size, count)
        weights.append(_average_weights(size, start, end, end - start))
    return _gradient_of_average(grad, *weights)


@decomposes(aten.avg_pool2d_backward.default, applies=has_static_space)
def _average_pool_backward(
    grad: Tensor,
    value: Tensor,
    kernel_size: Numbers,
    stride: Numbers,
    padding: Numbers,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    """Multiply the gradient by the matrices that averaged the rows and the columns."""
    kernel, steps, pads = (for_each(values, 2) for values in (kernel_size, stride or kernel_size, padding))
    weights = []
    for dim in (-2, -1):
        size, count = value.shape[dim], grad.shape[dim]
        options = (kernel[dim], steps[dim], pads[dim], count_include_pad)
        start, end, counted = average_windows(size, count, *options)
        divisor = counted if divisor_override is None else torch.ones_like(counted)
        weights.append(_average_weights(size, start, end, divisor))
    result = _gradient_of_average(grad, *weights)
    return result if divisor_override is None else result / divisor_override
