"""Softmax, means, sums, extremes and variances over any dimensions."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, prod
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from edgecore_xnnpack.lowering import Lowering
from edgecore_xnnpack.net import CHANNELS_FIRST, CHANNELS_LAST, FIRST, LAST, Shape, Value, comes_from_last
from edgecore_xnnpack.operators.comparison import opposite
from edgecore_xnnpack.operators.elementwise import binary, clamped, unary
from edgecore_xnnpack.operators.matmul import fully_connected
from edgecore_xnnpack.operators.pooling import MOST_IN_WINDOW, max_pooling, pad
from edgecore_xnnpack.operators.shape import slice_of
from edgecore_xnnpack.operators.table import Query, lowers
from edgecore_xnnpack.operators.volumes import as_columns
from edgecore_xnnpack.schema import graph as g

aten = torch.ops.aten


def _check_softmax(query: Query) -> str | None:
    composite = query.node.target in (aten.softmax.int, aten.log_softmax.int)
    return "dtype" if query.argument("dtype" if composite else "half_to_float") else None


@lowers(aten._softmax.default, aten.softmax.int, check=_check_softmax, whole=True)
def _softmax(low: Lowering, node: Node) -> Value:
    value = low.input()
    rank = len(value.shape)
    dim = int(low.argument("dim")) % rank
    if dim == rank - 1:
        return low.emit(g.Softmax, [value], value.shape, FIRST)
    if rank == 4 and dim == 1:  # the last dimension in memory
        return low.emit(g.Softmax, [value], value.shape, LAST)
    order = tuple([i for i in range(rank) if i != dim] + [dim])
    last = low.permute(value, order)
    result = low.emit(g.Softmax, [last], last.shape, FIRST)
    return low.permute(result, tuple(order.index(i) for i in range(rank)))


def _dims(source: Any, rank: int) -> list[int]:
    dims = source.argument("dim")
    given = range(rank) if dims is None or dims == [] else [dims] if isinstance(dims, int) else dims
    return sorted(dim % rank for dim in given)


def _check_reduction(query: Query) -> str | None:
    return "dtype" if query.argument("dtype") not in (None, torch.float32) else None


def _runs(dims: list[int]) -> list[list[int]]:
    """Sorted `dims` in runs of adjacent ones, the last run first."""
    runs: list[list[int]] = []
    for dim in dims:
        if runs and runs[-1][-1] == dim - 1:
            runs[-1].append(dim)
        else:
            runs.append([dim])
    return runs[::-1]


def _reduce(
    low: Lowering, value: Value, dims: list[int], shape: Shape, one: Callable[[Lowering, Value, list[int]], Value]
) -> Value:
    """`one` reduces adjacent dims to sizes of 1; the result is reshaped to `shape`."""
    for run in _runs(dims):
        value = one(low, value, run)
    return low.reshape(value, shape)


def _kept(value: Value, dims: list[int]) -> Shape:
    """The shape of `value` with sizes of 1 for `dims`."""
    return tuple(1 if dim in dims else size for dim, size in enumerate(value.shape))


def _folded(low: Lowering, value: Value, dims: list[int]) -> Value:
    """An image whose height is all elements of the adjacent `dims`.

    [before, channels = after, count, 1] in ATen's order is [before, count, 1, after] in memory.
    """
    before, after = prod(value.shape[: dims[0]]), prod(value.shape[dims[-1] + 1 :])
    image = low.reshape(value, (before, value.size // (before * after), 1, after))
    return low.permute(image, (0, 3, 1, 2))


def _mean_of(low: Lowering, value: Value, dims: list[int]) -> Value:
    """A pooling of a whole image, or a product with 1/n."""
    shape = _kept(value, dims)
    is_last = value.has_layouts and comes_from_last(value, low.net.producers())
    if is_last and len(shape) == 5 and dims == [2, 3, 4]:
        value, dims = as_columns(low, value), [2, 3]
    if is_last and len(shape) == 4 and dims == [1]:
        rows = low.permute(value, CHANNELS_LAST)
        average = np.full((1, value.shape[1]), 1 / value.shape[1], np.float32)
        return low.permute(fully_connected(low, rows, average, None), CHANNELS_FIRST)
    if dims[-1] == len(value.shape) - 1 and not (len(value.shape) == 4 and dims == [2, 3]):
        before = prod(value.shape[: dims[0]])
        count = value.size // before
        average = np.full((1, count), 1 / count, np.float32)
        return low.reshape(fully_connected(low, low.reshape(value, (before, count)), average, None), shape)
    image = value if len(value.shape) == 4 and dims == [2, 3] else _folded(low, value, dims)
    pooled = low.emit(g.GlobalAvgPooling2d, [image], (*image.shape[:2], 1, 1), LAST, flags=g.KEEP_DIMS)
    return low.reshape(pooled, shape)


def mean(low: Lowering, value: Value, dims: list[int], shape: Shape) -> Value:
    """The mean over `dims`, reshaped to `shape`."""
    return _reduce(low, value, dims, shape, _mean_of)


def _greatest_of(low: Lowering, value: Value, dims: list[int]) -> Value:
    """A pooling of a whole image."""
    shape = _kept(value, dims)
    image = value if len(value.shape) == 4 and dims == [2, 3] else _folded(low, value, dims)
    if image.shape[2] * image.shape[3] > 1:
        image = max_pooling(low, image, (*image.shape[:2], 1, 1), image.shape[2:])
    return low.reshape(image, shape)


def greatest(low: Lowering, value: Value, dims: list[int], shape: Shape) -> Value:
    """The maximum over `dims`, reshaped to `shape`."""
    return _reduce(low, value, dims, shape, _greatest_of)


@lowers(aten.mean.dim, check=_check_reduction, scalar=True)
def _mean(low: Lowering, node: Node) -> Value:
    value = low.input()
    return mean(low, value, _dims(low, len(value.shape)), low.shape)


@lowers(aten.sum.dim_IntList, check=_check_reduction, scalar=True)
def _sum(low: Lowering, node: Node) -> Value:
    value = low.input()
    dims = _dims(low, len(value.shape))
    count = prod(value.shape[dim] for dim in dims)
    average = mean(low, value, dims, low.shape or (1,))
    return low.reshape(binary(low, g.Multiply, average, low.scalar(float(count))), low.shape)


def _check_window(query: Query) -> str | None:
    count = prod(query.shape[dim] for dim in _dims(query, len(query.shape)))
    return None if count <= MOST_IN_WINDOW else f"a maximum of {count} elements"


_WINDOW = f"at most {MOST_IN_WINDOW} elements reduced to one"


@lowers(aten.amax.default, aten.amin.default, check=_check_window, constraints=_WINDOW, scalar=True)
def _extreme(low: Lowering, node: Node) -> Value:
    """The minimum is the maximum with both signs changed."""
    value, least = low.input(), node.target is aten.amin.default
    result = greatest(low, unary(low, g.Negate, value) if least else value, _dims(low, len(value.shape)), low.shape)
    return unary(low, g.Negate, result) if least else result


def _reads(node: Node, index: int) -> bool:
    return any(user.args[1] == index for user in node.users)


def _check_extreme(query: Query) -> str | None:
    if query.node.all_input_nodes[0].meta["val"].dtype == torch.int64:  # a dtype of the row for the sake of the indices
        return "maxima of integers"
    return _check_window(query)


def _with_indices(low: Lowering, value: Value, dims: list[int]) -> tuple[Value, Value]:
    """The maxima over `dims`, as an image, and their places, which leave the delegate: nothing inside reads integers.

    Equals have the place of the first, and NaN is no maximum unless it is the first element.
    """
    image = _folded(low, value, dims)
    if image.shape[2] == 1:  # not a window; of equals the first is the greatest
        image = pad(low, image, (0, 0, 0, 0), (0, 0, 1, 0), -inf)
    maxima, indices = low.emit_with_indices(image, (*image.shape[:2], 1, 1))
    return maxima, low.reshape(indices, low.shape)


@lowers(aten.max.dim, aten.min.dim, check=_check_extreme, dtypes=(torch.float32, torch.int64), constraints=_WINDOW)
def _extreme_values(low: Lowering, node: Node) -> list[Any]:
    value, least = low.input(), node.target is aten.min.dim
    dims, signed = _dims(low, len(value.shape)), unary(low, g.Negate, value) if least else value
    if not _reads(node, 1):
        result = greatest(low, signed, dims, low.shape)
        return [unary(low, g.Negate, result) if least else result, None]
    maxima, index = _with_indices(low, signed, dims)
    if not _reads(node, 0):
        low.leave_unread(maxima, node.meta["val"][1])
        return [None, index]
    result = low.reshape(maxima, low.shape)
    return [unary(low, g.Negate, result) if least else result, index]


@lowers(aten.argmax.default, aten.argmin.default, check=_check_extreme, dtypes=(torch.float32, torch.int64),
        constraints=_WINDOW, scalar=True)  # fmt: skip
def _place(low: Lowering, node: Node) -> Value:
    value = low.input()
    signed = unary(low, g.Negate, value) if node.target is aten.argmin.default else value
    maxima, index = _with_indices(low, signed, _dims(low, len(value.shape)))
    low.leave_unread(maxima, node.meta["val"])
    return index


@lowers(aten.any.dim, aten.any.dims, aten.all.dim, aten.all.dims, check=_check_window, constraints=_WINDOW,
        dtypes=(torch.bool,))  # fmt: skip
def _some_or_all(low: Lowering, node: Node) -> Value:
    """All are true if none is not."""
    value, every = low.input(), node.target in (aten.all.dim, aten.all.dims)
    dims = _dims(low, len(value.shape))
    result = greatest(low, opposite(low, value) if every else value, dims, low.shape)
    return opposite(low, result) if every else result


def _correction(source: Any) -> float:
    if source.node.target is aten.var.dim:
        return float(bool(source.argument("unbiased")))
    given = source.argument("correction")
    return 1.0 if given is None else float(given)


def _check_variance(query: Query) -> str | None:
    count = prod(query.shape[dim] for dim in _dims(query, len(query.shape)))
    return None if count > _correction(query) else f"variance of {count} elements"


@lowers(aten.var.dim, aten.var.correction, check=_check_variance, constraints="more elements than the correction")
def _variance(low: Lowering, node: Node) -> Value:
    value = low.input()
    dims = _dims(low, len(value.shape))
    count = prod(value.shape[dim] for dim in dims)
    centred = binary(low, g.Subtract, value, mean(low, value, dims, _kept(value, dims)))
    variance = mean(low, unary(low, g.Square, centred), dims, low.shape)
    factor = count / (count - _correction(low))
    return variance if factor == 1 else binary(low, g.Multiply, variance, low.scalar(factor))


def _finite_greatest(low: Lowering, value: Value, dims: list[int]) -> Value:
    """What is subtracted before exp; finite, so that rows of nothing but -inf or with inf come out as they should."""
    limit = float(np.finfo(np.float32).max)
    return clamped(low, greatest(low, value, dims, _kept(value, dims)), -limit, limit)


def _log_of_sum(low: Lowering, shifted: Value, dims: list[int]) -> Value:
    """log(sum(exp(shifted))) with sizes of 1 for `dims`."""
    exponentials = unary(low, g.Exp, shifted)
    average = mean(low, exponentials, dims, _kept(shifted, dims))
    count = prod(shifted.shape[dim] for dim in dims)
    return unary(low, g.Log, binary(low, g.Multiply, average, low.scalar(float(count))))


@lowers(aten.logsumexp.default, check=_check_window, constraints=_WINDOW, whole=True)
def _logsumexp(low: Lowering, node: Node) -> Value:
    value = low.input()
    dims = _dims(low, len(value.shape))
    top = _finite_greatest(low, value, dims)
    result = binary(low, g.Add, _log_of_sum(low, binary(low, g.Subtract, value, top), dims), top)
    return low.reshape(result, low.shape)


MOST_SUMMED = 1024
"""Ten steps."""


def _check_cumsum(query: Query) -> str | None:
    count = query.shape[int(query.argument("dim")) % len(query.shape)]
    return _check_reduction(query) if count <= MOST_SUMMED else f"a cumulative sum of {count} elements"


@lowers(aten.cumsum.default, check=_check_cumsum, constraints=f"of at most {MOST_SUMMED} elements")
def _cumsum(low: Lowering, node: Node) -> Value:
    """Sums over twice as many neighbours in each step, up to all before an element (Hillis and Steele's scan)."""
    value = low.input()
    dim, step = int(low.argument("dim")) % len(value.shape), 1
    while step < value.shape[dim]:
        before = tuple(step if axis == dim else 0 for axis in range(len(value.shape)))
        shifted = slice_of(low, value, dim, 0, value.shape[dim] - step)
        value = binary(low, g.Add, value, pad(low, shifted, before, (0,) * len(before), 0.0))
        step *= 2
    return value


@lowers(aten._log_softmax.default, aten.log_softmax.int, constraints=_WINDOW, whole=True,
        check=lambda query: _check_softmax(query) or _check_window(query))  # fmt: skip
def _log_softmax(low: Lowering, node: Node) -> Value:
    value = low.input()
    dims = _dims(low, len(value.shape))
    shifted = binary(low, g.Subtract, value, _finite_greatest(low, value, dims))
    return binary(low, g.Subtract, shifted, _log_of_sum(low, shifted, dims))
