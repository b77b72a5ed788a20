"""The dim orders of the edge dialect: the default order, and channels last for tensors of four and five dims."""

from __future__ import annotations

import torch

from edgecore.ir.torch_compat import is_contiguous_for_memory_format_or_false

MEMORY_FORMATS = {(0, 2, 3, 1): torch.channels_last, (0, 2, 3, 4, 1): torch.channels_last_3d}
"""Each dim order other than the default -> its memory format."""


def dim_order(val: torch.Tensor) -> tuple[int, ...] | None:
    """Return the dims of a tensor from the outermost to the innermost in memory.

    A tensor that is both contiguous and channels last, because it has one channel or one pixel, counts as contiguous.

    Returns:
        The dim order, such as (0, 2, 3, 1); None if the tensor is neither contiguous nor channels last.
    """
    if _is_dense(val, torch.contiguous_format):
        return tuple(range(val.dim()))
    formats = (order for order in MEMORY_FORMATS if len(order) == val.dim())
    return next((order for order in formats if _is_dense(val, MEMORY_FORMATS[order])), None)


def _is_dense(val: torch.Tensor, memory_format: torch.memory_format) -> bool:
    if all(isinstance(size, int) for size in val.shape):
        return val.is_contiguous(memory_format=memory_format)
    # Check strides without `Tensor.is_contiguous`: it adds guards, which torch refuses for sizes that depend on data.
    return bool(is_contiguous_for_memory_format_or_false(val, memory_format=memory_format))
