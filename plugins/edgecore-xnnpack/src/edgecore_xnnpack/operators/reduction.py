"""Softmax, means, sums, minima, maxima, variances and cumulative sums over any dimensions."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, prod
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from edgecore_xnnpack.graph.lower import Lowering
from edgecore_xnnpack.graph.padding import pad
from edgecore_xnnpack.graph.subgraph import (
    CHANNELS_FIRST,
    CHANNELS_LAST,
    FIRST,
    LAST,
    Shape,
    SubgraphValue,
    comes_from_last,
)
from edgecore_xnnpack.operator_table import Query, lowers
from edgecore_xnnpack.operators.comparison import logical_not
from edgecore_xnnpack.operators.elementwise import binary, clamped, unary
from edgecore_xnnpack.operators.matmul import fully_connected
from edgecore_xnnpack.operators.pooling import MAX_IN_WINDOW, max_pooling
from edgecore_xnnpack.operators.shape import slice_of
from edgecore_xnnpack.operators.volumes import as_columns
from edgecore_xnnpack.schema import graph as g

aten = torch.ops.aten


def _check_softmax(query: Query) -> str | None:
    name = "dtype" if query.node.target in (aten.softmax.int, aten.log_softmax.int) else "half_to_float"
    return f"the argument {name}" if query.argument(name) else None


@lowers(aten._softmax.default, aten.softmax.int, check=_check_softmax, do_not_decompose=True)
def _softmax(low: Lowering, node: Node) -> SubgraphValue:
    value = low.input()
    rank = len(value.shape)
    dim = int(low.argument("dim")) % rank
    if dim == rank - 1:
        return low.emit(g.Softmax, [value], value.shape, FIRST)
    if rank == 4 and dim == 1:  # a softmax over channels needs them last in memory (NHWC)
        return low.emit(g.Softmax, [value], value.shape, LAST)
    order = tuple([i for i in range(rank) if i != dim] + [dim])
    last = low.permute(value, order)
    result = low.emit(g.Softmax, [last], last.shape, FIRST)
    return low.permute(result, tuple(order.index(i) for i in range(rank)))


def _dims(source: Any, rank: int) -> list[int]:
    """Return the dims that an fx node reduces, sorted and not negative; `source` is its `Query` or `Lowering`."""
    dims = source.argument("dim")
    if dims is None or dims == []:
        return list(range(rank))
    return sorted(dim % rank for dim in ([dims] if isinstance(dims, int) else dims))


def _check_reduction(query: Query) -> str | None:
    return "the argument dtype" if query.argument("dtype") not in (None, torch.float32) else None


def _runs(dims: list[int]) -> list[list[int]]:
    """Group sorted `dims` into runs of adjacent dimensions, the last run first."""
    runs: list[list[int]] = []
    for dim in dims:
        if runs and runs[-1][-1] == dim - 1:
            runs[-1].append(dim)
        else:
            runs.append([dim])
    return runs[::-1]


def _reduce(
    low: Lowering,
    value: SubgraphValue,
    dims: list[int],
    shape: Shape,
    reduce_run: Callable[[Lowering, SubgraphValue, list[int]], SubgraphValue],
) -> SubgraphValue:
    """Reduce each run of adjacent dims to sizes of 1 with `reduce_run`, and reshape the result to `shape`."""
    for run in _runs(dims):
        value = reduce_run(low, value, run)
    return low.reshape(value, shape)


def _keepdim_shape(value: SubgraphValue, dims: list[int]) -> Shape:
    return tuple(1 if dim in dims else size for dim, size in enumerate(value.shape))


def _as_column_image(low: Lowering, value: SubgraphValue, dims: list[int]) -> SubgraphValue:
    """View the adjacent `dims` as the height of an image of width 1, so that a pooling of whole images reduces them.

    With `count` elements in `dims`, [before, count, 1, after] in memory is an image [N, H, W, C] with channels last:
    N = before, H = count, W = 1, C = after.
    """
    before, after = prod(value.shape[: dims[0]]), prod(value.shape[dims[-1] + 1 :])
    image = low.reshape(value, (before, value.size // (before * after), 1, after))
    return low.permute(image, (0, 3, 1, 2))


def _mean_adjacent(low: Lowering, value: SubgraphValue, dims: list[int]) -> SubgraphValue:
    """Average over adjacent dims, whose sizes become 1, without a transpose.

    If the n averaged elements are adjacent in memory, a fully connected node with a weight [1, n] of 1/n averages them.
    Otherwise, and for the pixels of an image, global average pooling averages them.
    """
    shape = _keepdim_shape(value, dims)
    is_last = value.has_layouts and comes_from_last(value, low.subgraph.producers())
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
    image = value if len(value.shape) == 4 and dims == [2, 3] else _as_column_image(low, value, dims)
    pooled = low.emit(g.GlobalAvgPooling2d, [image], (*image.shape[:2], 1, 1), LAST, flags=g.KEEP_DIMS)
    return low.reshape(pooled, shape)


def mean(low: Lowering, value: SubgraphValue, dims: list[int], shape: Shape) -> SubgraphValue:
    """Emit the mean over `dims`; the result is reshaped to `shape`."""
    return _reduce(low, value, dims, shape, _mean_adjacent)


def _amax_adjacent(low: Lowering, value: SubgraphValue, dims: list[int]) -> SubgraphValue:
    """Emit the maximum over adjacent dims, whose sizes become 1, as a max pooling of whole images."""
    shape = _keepdim_shape(value, dims)
    image = value if len(value.shape) == 4 and dims == [2, 3] else _as_column_image(low, value, dims)
    if image.shape[2] * image.shape[3] > 1:
        image = max_pooling(low, image, (*image.shape[:2], 1, 1), image.shape[2:])
    return low.reshape(image, shape)


def amax(low: Lowering, value: SubgraphValue, dims: list[int], shape: Shape) -> SubgraphValue:
    """Emit max poolings for the maximum over `dims`, because executorch 1.5's nodes have no such reduction."""
    return _reduce(low, value, dims, shape, _amax_adjacent)


@lowers(aten.mean.dim, check=_check_reduction, scalar_result=True)
def _mean(low: Lowering, node: Node) -> SubgraphValue:
    value = low.input()
    return mean(low, value, _dims(low, len(value.shape)), low.shape)


@lowers(aten.sum.dim_IntList, check=_check_reduction, scalar_result=True)
def _sum(low: Lowering, node: Node) -> SubgraphValue:
    value = low.input()
    dims = _dims(low, len(value.shape))
    count = prod(value.shape[dim] for dim in dims)
    average = mean(low, value, dims, low.shape or (1,))
    return low.reshape(binary(low, g.Multiply, average, low.scalar(float(count))), low.shape)


def _check_window(query: Query) -> str | None:
    """Return a reason if a maximum is over more elements than a pooling window of XNNPACK may have; None otherwise."""
    count = prod(query.shape[dim] for dim in _dims(query, len(query.shape)))
    return None if count <= MAX_IN_WINDOW else f"a maximum of {count} elements, more than {MAX_IN_WINDOW}"


_WINDOW = f"at most {MAX_IN_WINDOW} elements reduced to one"


@lowers(aten.amax.default, aten.amin.default, check=_check_window, constraints=_WINDOW, scalar_result=True)
def _amax_amin(low: Lowering, node: Node) -> SubgraphValue:
    value, is_min = low.input(), node.target is aten.amin.default
    result = amax(low, unary(low, g.Negate, value) if is_min else value, _dims(low, len(value.shape)), low.shape)
    return unary(low, g.Negate, result) if is_min else result


def _is_used(node: Node, index: int) -> bool:
    return any(user.args[1] == index for user in node.users)


def _check_amax(query: Query) -> str | None:
    # The operator table's row allows int64 because of the result's indices; the input must not be int64.
    if query.node.all_input_nodes[0].meta["val"].dtype == torch.int64:
        return "maxima of integers"
    return _check_window(query)


def _with_indices(low: Lowering, value: SubgraphValue, dims: list[int]) -> tuple[SubgraphValue, SubgraphValue]:
    """Emit the maxima over `dims` as an image, and their int32 indices in the shape of the node's result.

    The indices can only be outputs of the delegate, because no XNNPACK node reads int32 tensors. Of several equal
    maxima, the first one's index is returned. A NaN is returned only if it is the first element.
    """
    image = _as_column_image(low, value, dims)
    if image.shape[2] == 1:  # XNNPACK refuses windows of one element: add -inf, whose index is never returned
        image = pad(low, image, (0, 0, 0, 0), (0, 0, 1, 0), -inf)
    maxima, indices = low.emit_with_indices(image, (*image.shape[:2], 1, 1))
    return maxima, low.reshape(indices, low.shape)


@lowers(aten.max.dim, aten.min.dim, check=_check_amax, dtypes=(torch.float32, torch.int64), constraints=_WINDOW)
def _max_min(low: Lowering, node: Node) -> list[Any]:
    value, is_min = low.input(), node.target is aten.min.dim
    dims, signed = _dims(low, len(value.shape)), unary(low, g.Negate, value) if is_min else value
    if not _is_used(node, 1):
        result = amax(low, signed, dims, low.shape)
        return [unary(low, g.Negate, result) if is_min else result, None]
    maxima, index = _with_indices(low, signed, dims)
    if not _is_used(node, 0):
        low.leave_unread(maxima, node.meta["val"][1])
        return [None, index]
    result = low.reshape(maxima, low.shape)
    return [unary(low, g.Negate, result) if is_min else result, index]


@lowers(aten.argmax.default, aten.argmin.default, check=_check_amax, dtypes=(torch.float32, torch.int64),
        constraints=_WINDOW, scalar_result=True)  # fmt: skip
def _argmax_argmin(low: Lowering, node: Node) -> SubgraphValue:
    value = low.input()
    signed = unary(low, g.Negate, value) if node.target is aten.argmin.default else value
    maxima, index = _with_indices(low, signed, _dims(low, len(value.shape)))
    low.leave_unread(maxima, node.meta["val"])
    return index


@lowers(aten.any.dim, aten.any.dims, aten.all.dim, aten.all.dims, check=_check_window, constraints=_WINDOW,
        dtypes=(torch.bool,))  # fmt: skip
def _any_all(low: Lowering, node: Node) -> SubgraphValue:
    """Emit any(x) = amax(x), as booleans are 0 and 1, and all(x) = not any(not x)."""
    value, is_all = low.input(), node.target in (aten.all.dim, aten.all.dims)
    dims = _dims(low, len(value.shape))
    result = amax(low, logical_not(low, value) if is_all else value, dims, low.shape)
    return logical_not(low, result) if is_all else result


def _correction(source: Any) -> float:
    """Return the correction c of a variance with divisor n - c; `source` is the node's `Query` or `Lowering`."""
    if source.node.target is aten.var.dim:
        return float(bool(source.argument("unbiased")))
    correction = source.argument("correction")
    return 1.0 if correction is None else float(correction)


def _check_variance(query: Query) -> str | None:
    count = prod(query.shape[dim] for dim in _dims(query, len(query.shape)))
    return None if count > _correction(query) else f"variance of {count} elements"


@lowers(aten.var.dim, aten.var.correction, check=_check_variance, constraints="more elements than the correction")
def _variance(low: Lowering, node: Node) -> SubgraphValue:
    value = low.input()
    dims = _dims(low, len(value.shape))
    count = prod(value.shape[dim] for dim in dims)
    centred = binary(low, g.Subtract, value, mean(low, value, dims, _keepdim_shape(value, dims)))
    variance = mean(low, unary(low, g.Square, centred), dims, low.shape)
    factor = count / (count - _correction(low))
    return variance if factor == 1 else binary(low, g.Multiply, variance, low.scalar(factor))


def _finite_amax(low: Lowering, value: SubgraphValue, dims: list[int]) -> SubgraphValue:
    """Emit the maximum over `dims`, clamped to finite numbers; without infinities, exp(x - maximum) cannot overflow.

    The maximum must be finite, because inf - inf is NaN. With the clamp, a row that is -inf everywhere has a sum of
    exponentials of 0, and a row with inf has a sum of inf.
    """
    limit = float(np.finfo(np.float32).max)
    return clamped(low, amax(low, value, dims, _keepdim_shape(value, dims)), -limit, limit)


def _log_of_sum(low: Lowering, shifted: SubgraphValue, dims: list[int]) -> SubgraphValue:
    """Emit log(sum(exp(shifted))) over `dims`, which become sizes of 1. The sum is the mean times the element count."""
    exponentials = unary(low, g.Exp, shifted)
    average = mean(low, exponentials, dims, _keepdim_shape(shifted, dims))
    count = prod(shifted.shape[dim] for dim in dims)
    return unary(low, g.Log, binary(low, g.Multiply, average, low.scalar(float(count))))


@lowers(aten.logsumexp.default, check=_check_window, constraints=_WINDOW, do_not_decompose=True)
def _logsumexp(low: Lowering, node: Node) -> SubgraphValue:
    value = low.input()
    dims = _dims(low, len(value.shape))
    top = _finite_amax(low, value, dims)
    result = binary(low, g.Add, _log_of_sum(low, binary(low, g.Subtract, value, top), dims), top)
    return low.reshape(result, low.shape)


MAX_SUMMED = 1024
"""Maximum number of elements of a cumulative sum, which needs log2 of this number of additions: ten."""


def _check_cumsum(query: Query) -> str | None:
    count = query.shape[int(query.argument("dim")) % len(query.shape)]
    return _check_reduction(query) if count <= MAX_SUMMED else f"a cumulative sum of {count} elements"


@lowers(aten.cumsum.default, check=_check_cumsum, constraints=f"of at most {MAX_SUMMED} elements")
def _cumsum(low: Lowering, node: Node) -> SubgraphValue:
    """Emit the scan of Hillis and Steele: in step k = 0, 1, .., each element adds the element 2^k positions before it.

    After step k, an element is the sum of itself and the 2^(k+1) - 1 elements before it, so that log2(n) additions of
    shifted copies suffice for n elements.
    """
    value = low.input()
    dim, step = int(low.argument("dim")) % len(value.shape), 1
    while step < value.shape[dim]:
        before = tuple(step if axis == dim else 0 for axis in range(len(value.shape)))
        shifted = slice_of(low, value, dim, 0, value.shape[dim] - step)
        value = binary(low, g.Add, value, pad(low, shifted, before, (0,) * len(before), 0.0))
        step *= 2
    return value


@lowers(aten._log_softmax.default, aten.log_softmax.int, constraints=_WINDOW, do_not_decompose=True,
        check=lambda query: _check_softmax(query) or _check_window(query))  # fmt: skip
def _log_softmax(low: Lowering, node: Node) -> SubgraphValue:
    value = low.input()
    dims = _dims(low, len(value.shape))
    shifted = binary(low, g.Subtract, value, _finite_amax(low, value, dims))
    return binary(low, g.Subtract, shifted, _log_of_sum(low, shifted, dims))
