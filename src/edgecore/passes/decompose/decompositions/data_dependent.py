"""Decompositions of operators that find elements: `nonzero_static`, `unique_consecutive`.

The target runtime `edgecore` has kernels for both: there, `rewrites/kernels.py` keeps the operators. Each function has
the arguments of its ATen operator, and `decompose` traces the function.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.fx import Node

from edgecore.ir.op_args import argument
from edgecore.passes.decompose.decompositions.various import decomposes, has_static_sizes

aten = torch.ops.aten


@decomposes(aten.nonzero_static.default)
def _nonzero_static(value: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """Append rows of the fill value to the indices of all elements that are not zero, and cut at `size` rows."""
    filling = torch.full((size, value.dim()), fill_value, dtype=torch.int64)
    return torch.cat([torch.nonzero(value), filling])[:size]


def _has_slices(node: Node) -> bool:
    value, dim = argument(node, "self").meta["val"], argument(node, "dim")
    return has_static_sizes(node) and value.numel() > 0 and (dim is None or value.dim() > 0)


@decomposes(aten.unique_consecutive.default, applies=_has_slices)
def _unique_consecutive(
    value: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Compare each slice with the one before it. The index of a slice's run is the number of runs that began before it.

    With a dim, all three results have values, as in eager PyTorch on the CPU.
    """
    slices = value.flatten().unsqueeze(1) if dim is None else value.movedim(dim, 0).reshape(value.shape[dim], -1)
    count = slices.shape[0]
    differs = (slices[1:] != slices[:-1]).any(1)
    begins = torch.cat([torch.ones(1, dtype=torch.bool), differs])
    starts = torch.nonzero(begins).squeeze(1)
    values = torch.index_select(value.flatten() if dim is None else value, dim or 0, starts)
    runs = torch.cumsum(begins, 0) - 1
    empty = torch.empty(0, dtype=torch.int64)
    lengths = torch.zeros(count, dtype=torch.int64).scatter_add(0, runs, torch.ones(count, dtype=torch.int64))
    inverse = runs.view(value.shape) if dim is None else runs
    return (
        values,
        inverse if return_inverse or dim is not None else empty,
        lengths[: starts.shape[0]] if return_counts or dim is not None else empty,
    )
