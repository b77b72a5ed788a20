"""Decompositions of operators that reduce elements by index: `scatter_reduce`, `index_reduce`, `_embedding_bag`.

The target runtime `edgecore` has a kernel for `scatter_reduce`: there, `rewrites/kernels.py` keeps the operator.
Each function has the arguments of its ATen operator, and `decompose` traces the function.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from edgecore.passes.decompose.decompositions.ordering import limits
from edgecore.passes.decompose.decompositions.various import decomposes

aten = torch.ops.aten


@decomposes(aten.scatter_reduce.two)
def _scatter_reduce(
    value: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Sum with `scatter_add`; compute other reductions with a mask of the elements that each result reads."""
    if index.numel() == 0:
        return value.clone()
    if value.dim() == 0:
        row = _scatter_reduce(value.view(1), 0, index.view(1), source.view(1), reduce, include_self=include_self)
        return row.view(())
    index = index if index.dim() else index.view(1)
    source = source if source.dim() else source.view(1)
    for axis, size in enumerate(index.shape):
        source = source.narrow(axis, 0, size)
    if reduce in ("sum", "mean"):
        return _scatter_sum(value, dim, index, source, reduce == "mean", include_self)
    return _masked_reduction(value, dim % value.dim(), index, source, reduce, include_self)


def _scatter_sum(value: Tensor, dim: int, index: Tensor, source: Tensor, is_mean: bool, include_self: bool) -> Tensor:
    base = value if include_self else value.scatter(dim, index, 0)
    total = base.scatter_add(dim, index, source)
    if not is_mean:
        return total
    counts = torch.ones_like(value) if include_self else torch.zeros_like(value)
    counts = torch.clamp(counts.scatter_add(dim, index, torch.ones_like(source)), min=1)
    return total / counts if value.is_floating_point() else torch.div(total, counts, rounding_mode="floor")


def _masked_reduction(
    value: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, include_self: bool
) -> Tensor:
    """Compute a product, maximum or minimum for each element of `value` over the row of `source` along `dim`.

    A mask [..., size of `value` along `dim`, size of `source` along `dim`] selects the elements of the row that belong
    to an element of `value`. Along the other dims, `index` may be smaller than `value`; it is padded with -1, which
    matches no element.
    """
    lowest, highest = limits(value.dtype)
    neutral = {"prod": 1, "amax": lowest, "amin": highest}[reduce]
    # Scatter the start values: this also refuses an index that is out of range, which the mask alone would ignore.
    before = value.gather(dim, index) if include_self else torch.full(index.shape, neutral, dtype=value.dtype)
    value = value.scatter(dim, index, before)
    widths = [0 if axis == dim else size - index.shape[axis] for axis, size in enumerate(value.shape)]
    padding = [width for size in reversed(widths) for width in (0, size)]
    if any(widths):
        index, source = aten.constant_pad_nd(index, padding, -1), aten.constant_pad_nd(source, padding, 0)
    places = torch.arange(value.shape[dim]).unsqueeze(1)
    mask = index.transpose(dim, -1).unsqueeze(-2) == places
    rows = torch.where(mask, source.transpose(dim, -1).unsqueeze(-2), torch.full((), neutral, dtype=value.dtype))
    reduced = (rows.prod(-1) if reduce == "prod" else getattr(rows, reduce)(-1)).to(value.dtype).transpose(dim, -1)
    return value * reduced if reduce == "prod" else _EXTREMA[reduce](value, reduced)


_EXTREMA = {"amax": torch.maximum, "amin": torch.minimum}


@decomposes(aten.scatter.reduce)
def _scatter_with_reduction(value: Tensor, dim: int, index: Tensor, source: Tensor, *, reduce: str) -> Tensor:
    """Reduce with `scatter_reduce`, which has other names for the same reductions."""
    return value.scatter_reduce(dim, index, source, {"add": "sum", "multiply": "prod"}[reduce])


@decomposes(aten.scatter.value_reduce)
def _scatter_number_with_reduction(value: Tensor, dim: int, index: Tensor, number: Any, *, reduce: str) -> Tensor:
    source = torch.full(index.shape, number, dtype=value.dtype)
    return _scatter_with_reduction(value, dim, index, source, reduce=reduce)


@decomposes(aten.index_reduce.default)
def _index_reduce(
    value: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Reduce with `scatter_reduce`, after repeating the index along all dims except `dim`."""
    if value.dim() == 0:
        return value.scatter_reduce(0, index, source, reduce, include_self=include_self)
    shape = [1] * value.dim()
    shape[dim] = index.numel()
    places = index.reshape(shape).expand(source.shape)
    return value.scatter_reduce(dim, places, source, reduce, include_self=include_self)


_SUM, _MEAN, _MAX = range(3)


@decomposes(aten._embedding_bag.default, aten._embedding_bag_forward_only.default)
def _embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Look up rows of `weight`, and reduce the rows of each bag (group of indices) to their sum, mean or maximum.

    Returns:
        The reduced bags; for each index the number of its bag; the number of indices in each bag; and for the maximum,
        the row of `weight` from which each element of a reduced bag comes. Eager mode skips results that it does not
        need, so the results after the first may have other shapes there.
    """
    count = offsets.numel()
    bags = count - 1 if include_last_offset else count
    starts = torch.zeros(indices.numel() + 1, dtype=torch.int64)
    starts = starts.scatter_add(0, offsets.to(torch.int64), torch.ones(count, dtype=torch.int64))
    bag = starts.cumsum(0)[:-1] - 1
    # Rows that belong to no bag (padding, or after the last offset) go into extra bags, which are then dropped.
    target = bag if padding_idx < 0 else torch.where(indices == padding_idx, count, bag)
    sizes = torch.zeros(count + 1, dtype=torch.int64).scatter_add(0, target, torch.ones_like(target))[:bags]
    rows = weight[indices].to(torch.float64 if weight.dtype == torch.float64 else torch.float32)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    columns = target.unsqueeze(1).expand(rows.shape)
    start = rows.new_zeros((count + 1, weight.shape[1]))
    places = torch.zeros(0, dtype=torch.int64)
    if mode == _MAX:
        result = start.scatter_reduce(0, columns, rows, "amax", include_self=False)
        row_numbers = torch.arange(indices.numel()).unsqueeze(1)
        chosen = torch.where(rows == result[target], row_numbers, indices.numel())
        none = torch.zeros((count + 1, weight.shape[1]), dtype=torch.int64)
        first = none.scatter_reduce(0, columns, chosen, "amin", include_self=False)
        is_empty = (sizes == 0).unsqueeze(1)
        places = torch.where(is_empty, 0, indices[torch.clamp(first[:bags], max=indices.numel() - 1)])
    else:
        result = start.scatter_add(0, columns, rows)
    result = result[:bags]
    if mode == _MEAN:
        result = result / torch.clamp(sizes, min=1).unsqueeze(1)
    return result.to(weight.dtype), bag, sizes, places
