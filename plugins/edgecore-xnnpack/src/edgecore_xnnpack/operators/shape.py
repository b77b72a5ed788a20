"""Operators that move elements: views, transposes, slices, concatenations, padding."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from edgecore_xnnpack.graph.lower import Lowering
from edgecore_xnnpack.graph.padding import pad
from edgecore_xnnpack.graph.subgraph import FIRST, SAME_LAYOUT, Shape, SubgraphValue
from edgecore_xnnpack.operator_table import Query, lowers
from edgecore_xnnpack.operators.elementwise import FLOAT_OR_BOOL, binary
from edgecore_xnnpack.schema import graph as g

aten = torch.ops.aten

MAX_PIECES = 64
"""Maximum number of slices that one call may become; with more, edgecore's own kernel for the operator is faster."""

_CONCATENATE = {2: g.Concatenate2, 3: g.Concatenate3, 4: g.Concatenate4, 5: g.Concatenate5}


def concatenate(low: Lowering, values: list[SubgraphValue], axis: int) -> SubgraphValue:
    """Concatenate values along `axis`, in groups of five: XNNPACK's nodes have two to five inputs."""
    while len(values) > 1:
        values = [_join(low, values[at : at + 5], axis) for at in range(0, len(values), 5)]
    return values[0]


def _join(low: Lowering, group: list[SubgraphValue], axis: int) -> SubgraphValue:
    if len(group) == 1:
        return group[0]
    shape = list(group[0].shape)
    shape[axis] = sum(value.shape[axis] for value in group)
    return low.emit(_CONCATENATE[len(group)], group, tuple(shape), SAME_LAYOUT, axis=axis)


@lowers(aten.cat.default, dtypes=FLOAT_OR_BOOL)
def _cat(low: Lowering, node: Node) -> SubgraphValue:
    values = [low.value(source) for source in low.argument("tensors")]
    return concatenate(low, values, int(low.argument("dim")) % len(low.shape))


@lowers(
    aten.view_copy.default,
    aten.squeeze_copy.dim,
    aten.squeeze_copy.dims,
    aten.unsqueeze_copy.default,
    dtypes=FLOAT_OR_BOOL,
)
def _view(low: Lowering, node: Node) -> SubgraphValue:
    split = _split_or_joined(low, low.input(), *(_sizes(tensor) for tensor in (node.args[0], node)))
    return low.reshape(low.input(), low.shape) if split is None else split


def _sizes(node: Any) -> list[Any]:
    """Return the sizes of a node's result as integers or sympy expressions, which can be compared."""
    return [size if isinstance(size, int) else size.node.expr for size in node.meta["val"].shape]


def _split_or_joined(low: Lowering, value: SubgraphValue, before: list[Any], after: list[Any]) -> SubgraphValue | None:
    """Emit a view with several symbolic sizes without a reshape node, which can infer only one symbolic size.

    This is possible if the view changes static sizes only and does one of these: split a size into two, join two
    sizes, add a size of 1, or remove a size of 1. A split [.., a*b, ..] -> [.., a, b, ..] takes the `a` slices of
    length b, adds a dimension to each, and concatenates them along that dimension. A join is the reverse.

    Args:
        low: The lowering.
        value: The value to view.
        before: The sizes of `value`, as `_sizes` returns them.
        after: The sizes of the view, as `_sizes` returns them.

    Returns:
        The view; None if the view has fewer than two symbolic sizes or is of another kind.
    """
    if sum(not isinstance(size, int) for size in after) < 2:
        return None
    # The sizes that change are before[start : len(before) - end] and after[start : len(after) - end].
    shorter_rank = min(len(before), len(after))
    start = next((i for i, (a, b) in enumerate(zip(before, after)) if a != b), shorter_rank)
    rest = shorter_rank - start
    end = next((i for i in range(rest) if before[-1 - i] != after[-1 - i]), rest)
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    short, long = sorted((old, new), key=len)
    is_one_change = (len(short), len(long)) in ((0, 1), (1, 2)) and all(isinstance(size, int) for size in old + new)
    if not is_one_change or long[0] > MAX_PIECES:
        return None
    rank = len(after if long is new else before)
    to_front = (start, *(axis for axis in range(rank) if axis != start))
    if long is new:
        value = _add_leading_dim(low, value)
        value = _regroup(low, value, start + 1, 0, new[1]) if short else value
        return _transpose_of(low, value, tuple(to_front.index(axis) for axis in range(rank)))
    value = _transpose_of(low, value, to_front)
    return _drop_leading_dim(low, _regroup(low, value, 0, start + 1, 1) if short else value)


def _regroup(low: Lowering, value: SubgraphValue, dim: int, other: int, length: int) -> SubgraphValue:
    """Cut `dim` into slices of `length` elements and concatenate them along `other`."""
    starts = range(0, value.shape[dim], length)
    return concatenate(low, [slice_of(low, value, dim, start, length) for start in starts], other)


def _add_leading_dim(low: Lowering, value: SubgraphValue) -> SubgraphValue:
    """Add a leading dimension of size 1 without a reshape: multiply by a constant 1 with one dimension more."""
    ones = low.constant(np.ones((1,) * (len(value.shape) + 1)))
    return low.emit(g.Multiply, [value, ones], (1, *value.shape), FIRST)


def _drop_leading_dim(low: Lowering, value: SubgraphValue) -> SubgraphValue:
    """Remove the leading dimension of size 1 without a reshape node, which cannot infer two symbolic sizes.

    Global average pooling can remove dimensions: without KEEP_DIMS it reduces [..., H, W, C] to [..., C]. So a second
    dimension of size 1 is added, the two are moved to the positions of H and W, and each image of one pixel is
    averaged. The average of one number is the number itself (its sum times 1/1): infinities and NaN do not change,
    denormals become 0 as in all of XNNPACK's operations, and -0 becomes 0.
    """
    raised = _add_leading_dim(low, value)
    last = len(raised.shape) - 1
    pixel = _transpose_of(low, raised, (*range(2, last), 0, 1, last))
    return low.emit(g.GlobalAvgPooling2d, [pixel], value.shape[1:], FIRST, flags=0)


def _transpose_of(low: Lowering, value: SubgraphValue, order: Shape) -> SubgraphValue:
    """Emit a transpose node even if only dimensions of size 1 move; `low.permute` would then emit a reshape."""
    if order == tuple(range(len(order))):
        return value
    return low.emit(g.StaticTranspose, [value], tuple(value.shape[i] for i in order), FIRST, perm=order)


def expand(low: Lowering, value: SubgraphValue, shape: Shape) -> SubgraphValue:
    """Broadcast `value` to `shape`: multiply by a constant of ones, since XNNPACK has no broadcasting copy."""
    value = low.reshape(value, (1,) * (len(shape) - len(value.shape)) + value.shape)
    if value.shape == shape:
        return value
    if value.constant is not None:
        return low.constant(np.broadcast_to(value.constant, shape))
    ones = np.ones([out if out != size else 1 for size, out in zip(value.shape, shape, strict=True)], np.float32)
    return binary(low, g.Multiply, value, low.constant(ones))


@lowers(aten.expand_copy.default, dtypes=FLOAT_OR_BOOL)
def _expand(low: Lowering, node: Node) -> SubgraphValue:
    return expand(low, low.input(), low.shape)


@lowers(aten.copy.default, dtypes=FLOAT_OR_BOOL)
def _write(low: Lowering, node: Node) -> SubgraphValue:
    return expand(low, low.value(low.argument("src")), low.shape)


@lowers(aten.repeat.default, dtypes=FLOAT_OR_BOOL)
def _repeat(low: Lowering, node: Node) -> SubgraphValue:
    """Repeat dimensions one by one: reshape to [before, 1, size * after], then broadcast the dimension of size 1."""
    value = low.input()
    repeats = [int(times) for times in low.argument("repeats")]
    value = low.reshape(value, (1,) * (len(repeats) - len(value.shape)) + value.shape)
    for dim, times in enumerate(repeats):
        if times != 1:
            shape = value.shape
            before, after = prod(shape[:dim]), prod(shape[dim + 1 :])
            rows = low.reshape(value, (before, 1, shape[dim] * after))
            rows = expand(low, rows, (before, times, shape[dim] * after))
            value = low.reshape(rows, (*shape[:dim], times * shape[dim], *shape[dim + 1 :]))
    return value


@lowers(aten.permute_copy.default, dtypes=FLOAT_OR_BOOL)
def _permute(low: Lowering, node: Node) -> SubgraphValue:
    rank = len(low.shape)
    return low.permute(low.input(), tuple(int(dim) % rank for dim in low.argument("dims")))


@lowers(aten.transpose_copy.int, dtypes=FLOAT_OR_BOOL)
def _transpose(low: Lowering, node: Node) -> SubgraphValue:
    order = list(range(len(low.shape)))
    a, b = int(low.argument("dim0")), int(low.argument("dim1"))
    order[a], order[b] = order[b], order[a]
    return low.permute(low.input(), tuple(order))


@lowers(aten.t_copy.default, dtypes=FLOAT_OR_BOOL)
def _t(low: Lowering, node: Node) -> SubgraphValue:
    return low.permute(low.input(), tuple(reversed(range(len(low.shape)))))


def slice_of(low: Lowering, value: SubgraphValue, dim: int, start: int, length: int) -> SubgraphValue:
    """Slice `length` elements of dimension `dim`, from index `start` on."""
    shape = (*value.shape[:dim], length, *value.shape[dim + 1 :])
    if shape == value.shape:
        return value
    offsets = tuple(start if axis == dim else 0 for axis in range(len(shape)))
    return low.emit(g.StaticSlice, [value], shape, SAME_LAYOUT, offsets=offsets, sizes=shape)


def _pads(sizes: Any, rank: int) -> tuple[list[int], list[int]]:
    """Return the padding before and after each dimension from the list of `constant_pad_nd`.

    That list has two numbers, before and after, for each dimension, and starts with the last dimension.
    """
    before, after = [0] * rank, [0] * rank
    for index in range(len(sizes) // 2):
        before[-1 - index], after[-1 - index] = int(sizes[2 * index]), int(sizes[2 * index + 1])
    return before, after


def _check_pad(query: Query) -> str | None:
    shape = query.sizes.of(query.node.args[0].meta["val"])  # type: ignore[union-attr]
    for size, *added in zip(shape, *_pads(query.argument("pad"), len(shape)), strict=True):
        if size + sum(min(width, 0) for width in added) < 1:
            return "negative padding that removes all elements of a dimension"
    return None


@lowers(aten.constant_pad_nd.default, check=_check_pad, constraints="negative padding leaves at least one element")
def _constant_pad(low: Lowering, node: Node) -> SubgraphValue:
    """Emit slices for dimensions with negative padding, then a pad node for the positive padding."""
    value = low.input()
    before, after = _pads(low.argument("pad"), len(value.shape))
    for dim, (start, end) in enumerate(zip(before, after, strict=True)):
        cut, size = max(-start, 0), value.shape[dim]
        value = slice_of(low, value, dim, cut, size - cut - max(-end, 0))
    widths = [tuple(max(size, 0) for size in side) for side in (before, after)]
    if not any(widths[0] + widths[1]):
        return value
    return pad(low, value, widths[0], widths[1], float(low.argument("value")))


def _check_slice(query: Query) -> str | None:
    return f"step {query.argument('step')} of rank 6" if query.argument("step") != 1 and len(query.shape) == 6 else None


@lowers(aten.slice_copy.Tensor, check=_check_slice, constraints="step 1 where the rank is 6", dtypes=FLOAT_OR_BOOL)
def _slice(low: Lowering, node: Node) -> SubgraphValue:
    value = low.input()
    dim, step = int(low.argument("dim")) % len(value.shape), int(low.argument("step"))
    size, length, start = value.shape[dim], low.shape[dim], low.argument("start") or 0
    start = min(max(start + size if start < 0 else start, 0), size)
    if step == 1:
        return slice_of(low, value, dim, start, length)
    # Pad the dimension to length * step, view it as [..., length, step, ...], and take index 0 along `step`.
    span = length * step
    value = slice_of(low, value, dim, start, min(span, size - start))
    missing = tuple(span - value.shape[dim] if axis == dim else 0 for axis in range(len(value.shape)))
    if any(missing):
        value = pad(low, value, (0,) * len(missing), missing, 0.0)
    steps = low.reshape(value, (*value.shape[:dim], length, step, *value.shape[dim + 1 :]))
    return low.reshape(slice_of(low, steps, dim + 1, 0, 1), low.shape)


@lowers(aten.select_copy.int, dtypes=FLOAT_OR_BOOL)
def _select(low: Lowering, node: Node) -> SubgraphValue:
    value = low.input()
    dim = int(low.argument("dim")) % len(value.shape)
    index = int(low.argument("index")) % value.shape[dim]
    return low.reshape(slice_of(low, value, dim, index, 1), low.shape)


@lowers(aten.split_with_sizes_copy.default, aten.split_copy.Tensor)
def _split(low: Lowering, node: Node) -> list[Any]:
    value = low.input()
    dim, start, parts = int(low.argument("dim")) % len(value.shape), 0, []
    for val in node.meta["val"]:
        length = low.sizes.of(val)[dim]
        # an empty tensor becomes None, because no delegated node reads it
        parts.append(slice_of(low, value, dim, start, length) if length else None)
        start += length
    return parts


@lowers(aten.unbind_copy.int)
def _unbind(low: Lowering, node: Node) -> list[SubgraphValue]:
    value = low.input()
    dim = int(low.argument("dim")) % len(value.shape)
    shape = (*value.shape[:dim], *value.shape[dim + 1 :])
    return [low.reshape(slice_of(low, value, dim, index, 1), shape) for index in range(value.shape[dim])]


@lowers(aten.stack.default, dtypes=FLOAT_OR_BOOL)
def _stack(low: Lowering, node: Node) -> SubgraphValue:
    dim = int(low.argument("dim")) % len(low.shape)
    shape = (*low.shape[:dim], 1, *low.shape[dim + 1 :])
    return concatenate(low, [low.reshape(low.value(source), shape) for source in low.argument("tensors")], dim)


def _overwrite(low: Lowering, value: SubgraphValue, part: SubgraphValue, dim: int, start: int) -> SubgraphValue:
    """Emit `value` with `part` in place of its elements along `dim` from `start` on, by concatenation."""
    end = start + part.shape[dim]
    before = [slice_of(low, value, dim, 0, start)] if start else []
    after = [slice_of(low, value, dim, end, value.shape[dim] - end)] if end < value.shape[dim] else []
    return concatenate(low, [*before, part, *after], dim)


@lowers(aten.select_scatter.default)
def _select_scatter(low: Lowering, node: Node) -> SubgraphValue:
    value = low.input()
    dim = int(low.argument("dim")) % len(value.shape)
    part = low.reshape(low.value(low.argument("src")), (*value.shape[:dim], 1, *value.shape[dim + 1 :]))
    return _overwrite(low, value, part, dim, int(low.argument("index")) % value.shape[dim])


def _check_scatter(query: Query) -> str | None:
    return None if query.argument("step") == 1 else f"step {query.argument('step')}"


@lowers(aten.slice_scatter.default, check=_check_scatter, constraints="step 1")
def _slice_scatter(low: Lowering, node: Node) -> SubgraphValue:
    value, part = low.input(), low.value(low.argument("src"))
    dim = int(low.argument("dim")) % len(value.shape)
    size, start = value.shape[dim], low.argument("start") or 0
    start = min(max(start + size if start < 0 else start, 0), size)
    return part if part.shape == value.shape else _overwrite(low, value, part, dim, start)
