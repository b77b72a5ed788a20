"""Operators that select or reorder elements: constant indices, roll, flip, nearest resizing, pixel shuffle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from edgecore_xnnpack.graph.lower import Lowering
from edgecore_xnnpack.graph.subgraph import Shape, SubgraphValue
from edgecore_xnnpack.operator_table import Query, lowers
from edgecore_xnnpack.operators.shape import MAX_PIECES, concatenate, expand, slice_of

aten = torch.ops.aten


def _pieces(indices: Sequence[int]) -> list[tuple[int, int]]:
    """Split indices into runs of consecutive numbers, such as 4, 5, 6; return start and length of each run."""
    runs: list[tuple[int, int]] = []
    for index in indices:
        if runs and index == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((index, 1))
    return runs


def _check_pieces(indices: Sequence[int]) -> str | None:
    count = len(_pieces(indices))
    return None if count <= MAX_PIECES else f"needs {count} slices, more than {MAX_PIECES}"


def take(low: Lowering, value: SubgraphValue, dim: int, indices: Sequence[int]) -> SubgraphValue:
    """Select elements of dimension `dim`: concatenate one slice for each run of consecutive indices."""
    return concatenate(low, [slice_of(low, value, dim, *piece) for piece in _pieces(indices)], dim)


def _numbers(tensor: torch.Tensor, size: int) -> list[int]:
    """Return the indices in `tensor` as a list, with negative indices counted from the end of a dimension of `size`."""
    return [int(index) % size for index in tensor.tolist()]


def _check_index(query: Query) -> str | None:
    indices = query.argument("indices")
    by_dim = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if len(by_dim) != 1:
        return f"{len(by_dim)} index tensors"
    ((dim, index),) = by_dim
    return _check_selection(query, dim, index)


def _check_selection(query: Query, dim: int, index: Node) -> str | None:
    if not query.is_constant(index):
        return "index not constant"
    tensor = query.constant(index)
    if tensor.dtype not in (torch.int64, torch.int32) or tensor.dim() != 1:
        return f"index of {str(tensor.dtype).removeprefix('torch.')} and rank {tensor.dim()}"
    return _check_pieces(_numbers(tensor, query.shape[dim]))


_CONSTRAINTS = f"one constant index of rank 1, in at most {MAX_PIECES} runs"


@lowers(aten.index.Tensor, check=_check_index, constraints=_CONSTRAINTS, any_dtype=("indices",))
def _index(low: Lowering, node: Node) -> SubgraphValue:
    dim, index = next((dim, index) for dim, index in enumerate(low.argument("indices")) if index is not None)
    return take(low, low.input(), dim, _numbers(low.tensor(index), low.input().shape[dim]))


def _selected_dim(source: Any) -> int:
    return int(source.argument("dim")) % len(source.shape)


@lowers(aten.index_select.default, constraints=_CONSTRAINTS, any_dtype=("index",),
        check=lambda query: _check_selection(query, _selected_dim(query), query.argument("index")))  # fmt: skip
def _index_select(low: Lowering, node: Node) -> SubgraphValue:
    dim = _selected_dim(low)
    return take(low, low.input(), dim, _numbers(low.tensor(low.argument("index")), low.input().shape[dim]))


def _check_flip(query: Query) -> str | None:
    reasons = (_check_pieces(range(query.shape[dim])[::-1]) for dim in query.argument("dims"))
    return next(filter(None, reasons), None)


@lowers(aten.flip.default, check=_check_flip, constraints=f"at most {MAX_PIECES} elements in each flipped dimension")
def _flip(low: Lowering, node: Node) -> SubgraphValue:
    value = low.input()
    for dim in low.argument("dims"):
        value = take(low, value, dim % len(value.shape), range(value.shape[dim])[::-1])
    return value


@lowers(aten.roll.default)
def _roll(low: Lowering, node: Node) -> SubgraphValue:
    value, shifts, dims = low.input(), low.argument("shifts"), low.argument("dims")
    if not dims:
        value, dims = low.reshape(value, (value.size,)), [0]
    for shift, dim in zip(shifts, dims, strict=True):
        axis, size = dim % len(value.shape), value.shape[dim]
        value = take(low, value, axis, [(index - shift) % size for index in range(size)])
    return low.reshape(value, low.shape)


def _check_shuffle(query: Query) -> str | None:
    return None if len(query.shape) == 4 else f"rank {len(query.shape)}"


@lowers(aten.pixel_shuffle.default, check=_check_shuffle, constraints="rank 4")
def _pixel_shuffle(low: Lowering, node: Node) -> SubgraphValue:
    batch, channels, height, width = low.input().shape
    factor = int(low.argument("upscale_factor"))
    parts = low.reshape(low.input(), (batch, channels // factor**2, factor, factor, height, width))
    return low.reshape(low.permute(parts, (0, 1, 4, 2, 5, 3)), low.shape)


@lowers(aten.pixel_unshuffle.default, check=_check_shuffle, constraints="rank 4")
def _pixel_unshuffle(low: Lowering, node: Node) -> SubgraphValue:
    batch, channels, height, width = low.input().shape
    factor = int(low.argument("downscale_factor"))
    parts = low.reshape(low.input(), (batch, channels, height // factor, factor, width // factor, factor))
    return low.reshape(low.permute(parts, (0, 1, 3, 5, 2, 4)), low.shape)


def _nearest(size: int, out: int, factor: float | None) -> list[int]:
    """Return for each output element i the index of its input element, which PyTorch computes as floor(i * scale).

    The product is a float32. The scale is size / out, or 1 / factor if the call has a scale factor.
    """
    scale = torch.tensor(size / out if factor is None else 1 / factor, dtype=torch.float32)
    return (torch.arange(out, dtype=torch.float32) * scale).long().clamp(max=size - 1).tolist()


def _upsample_dim(low: Lowering, value: SubgraphValue, dim: int, out: int, factor: float | None) -> SubgraphValue:
    """Resize one dimension to `out` elements: repeat each element equally often if possible, else select by index."""
    size = value.shape[dim]
    indices = _nearest(size, out, factor)
    if indices == [index * size // out for index in range(out)] and out % size == 0:
        each = (*value.shape[:dim], size, 1, *value.shape[dim + 1 :])
        repeated: Shape = (*each[: dim + 1], out // size, *each[dim + 2 :])
        return low.reshape(expand(low, low.reshape(value, each), repeated), (*value.shape[:dim], out, *each[dim + 2 :]))
    return take(low, value, dim, indices)


def _factors(source: Any) -> list[float | None]:
    rank = len(source.shape) - 2
    factors = source.argument("scale_factors")
    return [None] * rank if factors is None else [float(factor) for factor in factors]


def _check_nearest(query: Query) -> str | None:
    if len(query.shape) not in (3, 4):
        return f"rank {len(query.shape)}"
    for size, out, factor in zip(query.shape[2:], query.output_shape[2:], _factors(query), strict=True):
        reason = None if out % size == 0 else _check_pieces(_nearest(size, out, factor))
        if reason:
            return reason
    return None


@lowers(aten.upsample_nearest2d.vec, aten.upsample_nearest1d.vec, check=_check_nearest, do_not_decompose=True,
        constraints=f"integer factors, or at most {MAX_PIECES} runs of consecutive pixels")  # fmt: skip
def _upsample_nearest(low: Lowering, node: Node) -> SubgraphValue:
    """Emit nearest resizing of images with channels last, the layout that the neighbouring operations likely have."""
    shape, factors = low.shape, _factors(low)
    is_image = len(shape) == 4
    value = low.permute(low.input(), (0, 2, 3, 1)) if is_image else low.input()
    for axis, factor in enumerate(factors):
        value = _upsample_dim(low, value, axis + (1 if is_image else 2), shape[2 + axis], factor)
    return low.permute(value, (0, 3, 1, 2)) if is_image else value
