"""Decompositions into `topk` of operators that sort or rank elements, and decompositions of running maxima and minima.

Each function has the arguments of its ATen operator, and `decompose` traces the function.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from edgecore.ir.op_args import argument
from edgecore.passes.decompose.decompositions.various import decomposes, has_static_sizes, is_empty

aten = torch.ops.aten


def _ordered_size(node: Node) -> Any:
    """Return the number of elements along `dim` that a call sorts or ranks; it may be symbolic."""
    shape = argument(node, "self").meta["val"].shape
    return shape[argument(node, "dim")] if shape else 1


def _has_static_size(node: Node) -> bool:
    return isinstance(_ordered_size(node), int)


def _top(value: Tensor, count: int, dim: int, largest: bool) -> tuple[Tensor, Tensor]:
    """Return the `count` largest or smallest elements in order, and their indices.

    Booleans are converted to uint8, because constant folding runs PyTorch's `topk`, which does not support booleans.
    """
    ordered = value.to(torch.uint8) if value.dtype == torch.bool else value
    values, indices = torch.topk(ordered, count, dim, largest=largest, sorted=True)
    return values.to(value.dtype), indices


@decomposes(aten.sort.default, applies=_has_static_size)
def _sort(value: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """Sort with `topk`, where k is the size of the dim. The order of equal elements is unspecified, as in torch."""
    return _top(value, value.shape[dim] if value.dim() else 1, dim, descending)


@decomposes(aten.sort.stable, applies=_has_static_size)
def _stable_sort(
    value: Tensor, *, stable: bool | None, dim: int = -1, descending: bool = False
) -> tuple[Tensor, Tensor]:
    """Sort with `topk`, then sort the indices of equal elements with `topk` again.

    The second step sorts the integers rank * size + index, where equal elements have the same rank. These integers are
    distinct, and sorting them sorts the elements stably.
    """
    values, indices = _sort(value, dim, descending)
    size = value.shape[dim] if value.dim() else 1
    if not stable or size < 2:
        return values, indices
    before, after = values.narrow(dim, 0, size - 1), values.narrow(dim, 1, size - 1)
    differs = after != before
    if value.is_floating_point():
        differs = torch.logical_and(differs, torch.logical_not(torch.logical_and(after.isnan(), before.isnan())))
    first = torch.zeros_like(indices.narrow(dim, 0, 1))
    rank = torch.cat([first, differs.to(torch.int64).cumsum(dim)], dim)
    keys, _ = torch.topk(rank * size + indices, size, dim, largest=False, sorted=True)
    places = torch.remainder(keys, size)
    return value.gather(dim, places), places


def _kth(value: Tensor, k: int, dim: int) -> tuple[Tensor, Tensor]:
    """Return the k-th smallest element along `dim`, and its index; `dim` keeps size 1. NaN counts as the largest."""
    values, indices = _top(value, k, dim, largest=False)
    return values.narrow(dim, k - 1, 1), indices.narrow(dim, k - 1, 1)


def _squeezed(results: tuple[Tensor, Tensor], dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    values, indices = results
    return (values, indices) if keepdim or values.dim() == 0 else (values.squeeze(dim), indices.squeeze(dim))


@decomposes(aten.kthvalue.default, applies=_has_static_size)
def _kth_value(value: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    if value.dim() == 0:
        return value.clone(), torch.zeros((), dtype=torch.int64)
    return _squeezed(_kth(value, k, dim), dim, keepdim)


@decomposes(aten.median.dim, applies=_has_static_size)
def _median(value: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Return the lower of the two middle elements, or the first NaN if there is one."""
    if value.dim() == 0:
        return value.clone(), torch.zeros((), dtype=torch.int64)
    values, indices = _kth(value, (value.shape[dim] + 1) // 2, dim)
    if value.is_floating_point():
        is_nan = value.isnan()
        has_nan = is_nan.any(dim, keepdim=True)
        values = torch.where(has_nan, float("nan"), values)
        indices = torch.where(has_nan, torch.argmax(is_nan.to(torch.int32), dim, keepdim=True), indices)
    return _squeezed((values, indices), dim, keepdim)


@decomposes(aten.nanmedian.dim, applies=_has_static_size)
def _nan_median(value: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Return the lower of the two middle elements among those that are not NaN; NaNs sort last."""
    if value.dim() == 0 or not value.is_floating_point():
        return _median(value, dim, keepdim)
    values, indices = _sort(value, dim)
    count = torch.logical_not(value.isnan()).to(torch.int64).sum(dim, keepdim=True)
    middle = torch.clamp(torch.div(count - 1, 2, rounding_mode="floor"), min=0)
    return _squeezed((values.gather(dim, middle), indices.gather(dim, middle)), dim, keepdim)


@decomposes(aten.median.default, applies=has_static_sizes)
def _median_of_all(value: Tensor) -> Tensor:
    return _median_of_none(value.dtype) if value.numel() == 0 else _median(value.flatten(), 0)[0]


@decomposes(aten.nanmedian.default, applies=has_static_sizes)
def _nan_median_of_all(value: Tensor) -> Tensor:
    return _median_of_none(value.dtype) if value.numel() == 0 else _nan_median(value.flatten(), 0)[0]


def _median_of_none(dtype: torch.dtype) -> Tensor:
    """Return torch's median of no elements: NaN, or the smallest integer."""
    return torch.full((), torch.nan if dtype.is_floating_point else limits(dtype)[0], dtype=dtype)


@decomposes(aten.mode.default, applies=_has_static_size)
def _mode(value: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Sort, then return the smallest of the most frequent elements. A NaN equals no other element, as in torch.

    If the element occurs several times, any of its indices may be returned, as in torch.
    """
    if value.dim() == 0:
        return value.clone(), torch.zeros((), dtype=torch.int64)
    values, indices = (part.transpose(dim, -1) for part in _sort(value, dim))
    counts = (values.unsqueeze(-1) == values.unsqueeze(-2)).to(torch.int64).sum(-1)
    first = torch.argmax(counts, -1, keepdim=True)
    chosen = (part.gather(-1, first).transpose(dim, -1) for part in (values, indices))
    median, place = chosen
    return _squeezed((median, place), dim, keepdim)


def _prefixes(value: Tensor, dim: int, filling: Any) -> Tensor:
    """Return an n x n matrix in the last dims: row i has the first i + 1 elements along `dim`, then `filling`."""
    index = torch.arange(value.shape[dim])
    is_before = index.unsqueeze(0) <= index.unsqueeze(1)
    return torch.where(is_before, value.transpose(dim, -1).unsqueeze(-2), filling)


def _running(value: Tensor, dim: int, largest: bool) -> tuple[Tensor, Tensor]:
    """Compute `cummax` or `cummin`, and the last index of each running extremum."""
    if value.dim() == 0:
        return value.clone(), torch.zeros((), dtype=torch.int64)
    if is_empty(*value.shape):
        return value.clone(), torch.zeros_like(value, dtype=torch.int64)
    ordered = value.to(torch.uint8) if value.dtype == torch.bool else value
    lowest, highest = limits(ordered.dtype)
    prefixes = _prefixes(ordered, dim, lowest if largest else highest)
    extrema = prefixes.amax(-1) if largest else prefixes.amin(-1)
    here = ordered.transpose(dim, -1)
    is_reached = here == extrema if not value.is_floating_point() else torch.logical_or(here == extrema, here.isnan())
    places = torch.where(is_reached, torch.arange(value.shape[dim]), 0)
    last = _prefixes(places, -1, 0).amax(-1)
    return extrema.to(value.dtype).transpose(dim, -1), last.transpose(dim, -1)


def limits(dtype: torch.dtype) -> tuple[float, float]:
    """Return the smallest and largest number of a dtype; for floating-point dtypes, the infinities."""
    if dtype == torch.bool:
        return False, True
    if dtype.is_floating_point:
        return -torch.inf, torch.inf
    return torch.iinfo(dtype).min, torch.iinfo(dtype).max


@decomposes(aten.cummax.default)
def _cummax(value: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    return _running(value, dim, largest=True)


@decomposes(aten.cummin.default)
def _cummin(value: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    return _running(value, dim, largest=False)


@decomposes(aten.logcumsumexp.default)
def _logcumsumexp(value: Tensor, dim: int) -> Tensor:
    """Compute `logsumexp` of each row of an n x n matrix: row i has the first i + 1 elements, then minus infinity."""
    if value.dim() == 0:
        return value.clone()
    exact = value.to(torch.float64 if value.dtype == torch.float64 else torch.float32)
    return _prefixes(exact, dim, -torch.inf).logsumexp(-1).transpose(dim, -1).to(value.dtype)
