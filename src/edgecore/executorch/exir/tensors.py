"""Functions of ExecuTorch about dim orders, strides and sizes of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod
from operator import mul

import torch

CHANNELS_LAST = {4: [0, 2, 3, 1], 5: [0, 2, 3, 4, 1]}
"""Rank -> dim order of channels last."""


def num_bytes_from_shape_and_dtype(shape: Sequence[int], dtype: torch.dtype) -> int:
    """Return the bytes of a dense tensor."""
    return prod(shape) * dtype.itemsize


def contiguous_stride_from_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor; a dim of size 0 counts as a dim of size 1."""
    return tuple(accumulate([max(size, 1) for size in reversed(shape[1:])], mul, initial=1))[::-1] if shape else ()


def dim_order_from_stride(stride: Sequence[int]) -> tuple[int, ...]:
    """Return the dims from the outermost to the innermost in memory; dims of equal strides keep their order.

    Raises:
        RuntimeError: A stride is 0.
    """
    if 0 in stride:
        raise RuntimeError(
            f"strides {tuple(stride)}: a stride of 0 has no place in a dim order; make the tensor contiguous"
        )
    return tuple(sorted(range(len(stride)), key=lambda dim: -stride[dim]))


def stride_from_dim_order(sizes: Sequence[int], dim_order: Sequence[int]) -> list[int]:
    """Return the strides of a dense tensor with a dim order."""
    strides = contiguous_stride_from_shape([sizes[dim] for dim in dim_order])
    return [strides[list(dim_order).index(dim)] for dim in range(len(sizes))]


def get_dim_order(memory_format: torch.memory_format | None, ndim: int) -> list[int]:
    """Return the dim order of a memory format.

    Raises:
        ValueError: The format is neither contiguous nor, for 4 or 5 dims, channels last.
    """
    if memory_format in (None, torch.preserve_format, torch.contiguous_format):
        return list(range(ndim))
    if memory_format != {4: torch.channels_last, 5: torch.channels_last_3d}.get(ndim):
        raise ValueError(f"a tensor of {ndim} dims has no memory format {memory_format}")
    return CHANNELS_LAST[ndim]


def get_memory_format(dim_order: Sequence[int] | None) -> torch.memory_format:
    """Return the memory format of a dim order; for None, `torch.preserve_format`.

    Raises:
        ValueError: No memory format has the dim order.
    """
    if dim_order is None:
        return torch.preserve_format
    if list(dim_order) == list(range(len(dim_order))):
        return torch.contiguous_format
    if list(dim_order) == CHANNELS_LAST.get(len(dim_order)):
        return torch.channels_last if len(dim_order) == 4 else torch.channels_last_3d
    raise ValueError(f"no memory format has the dim order {list(dim_order)}")


def is_channel_last_dim_order(tensor: torch.Tensor) -> bool:
    """Return True if a tensor's dim order is channels last."""
    return list(tensor.dim_order()) == CHANNELS_LAST.get(tensor.dim())


def is_contiguous_dim_order(tensor: torch.Tensor) -> bool:
    """Return True if a tensor's dim order is the default: dims 0, 1, 2, ... from the outermost to the innermost."""
    return list(tensor.dim_order()) == list(range(tensor.dim()))
