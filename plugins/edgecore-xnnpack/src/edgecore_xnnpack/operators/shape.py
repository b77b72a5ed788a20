"""Operators that move elements."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from edgecore_xnnpack.lowering import Lowering
from edgecore_xnnpack.net import FIRST, TIED, Shape, Value
from edgecore_xnnpack.operators.elementwise import FLOAT_OR_BOOL, binary
from edgecore_xnnpack.operators.pooling import pad
from edgecore_xnnpack.operators.table import Query, lowers
from edgecore_xnnpack.schema import graph as g

aten = torch.ops.aten

MOST_PIECES = 64
"""Of one selection; more would cost more than the core's copy of single elements."""

_CONCATENATE = {2: g.Concatenate2, 3: g.Concatenate3, 4: g.Concatenate4, 5: g.Concatenate5}


def concatenate(low: Lowering, values: list[Value], axis: int) -> Value:
    """The values one after another along `axis`, in groups of at most five."""
    while len(values) > 1:
        values = [_join(low, values[at : at + 5], axis) for at in range(0, len(values), 5)]
    return values[0]


def _join(low: Lowering, group: list[Value], axis: int) -> Value:
    if len(group) == 1:
        return group[0]
    shape = list(group[0].shape)
    shape[axis] = sum(value.shape[axis] for value in group)
    return low.emit(_CONCATENATE[len(group)], group, tuple(shape), TIED, axis=axis)


@lowers(aten.cat.default, dtypes=FLOAT_OR_BOOL)
def _cat(low: Lowering, node: Node) -> Value:
    values = [low.value(source) for source in low.argument("tensors")]
    return concatenate(low, values, int(low.argument("dim")) % len(low.shape))


@lowers(
    aten.view_copy.default,
    aten.squeeze_copy.dim,
    aten.squeeze_copy.dims,
    aten.unsqueeze_copy.default,
    dtypes=FLOAT_OR_BOOL,
)
def _view(low: Lowering, node: Node) -> Value:
    split = _split_or_joined(low, low.input(), *(_sizes(one) for one in (node.args[0], node)))
    return low.reshape(low.input(), low.shape) if split is None else split


def _sizes(node: Any) -> list[Any]:
    """The sizes of a node's result; symbolic ones as expressions."""
    return [size if isinstance(size, int) else size.node.expr for size in node.meta["val"].shape]


def _split_or_joined(low: Lowering, value: Value, given: list[Any], wanted: list[Any]) -> Value | None:
    """A view that changes fixed sizes only beside several symbolic ones, of which XNNPACK's reshape infers just one.

    None where there are no two, or more changes than one size into two, two into one, or one that is 1.
    """
    if sum(not isinstance(size, int) for size in wanted) < 2:
        return None
    start = next((i for i, (a, b) in enumerate(zip(given, wanted)) if a != b), min(len(given), len(wanted)))
    least = min(len(given), len(wanted)) - start
    end = next((i for i in range(least) if given[-1 - i] != wanted[-1 - i]), least)
    old, new = given[start : len(given) - end], wanted[start : len(wanted) - end]
    short, long = sorted((old, new), key=len)
    is_one_change = (len(short), len(long)) in ((0, 1), (1, 2)) and all(isinstance(size, int) for size in old + new)
    if not is_one_change or long[0] > MOST_PIECES:
        return None
    rank = len(wanted if long is new else given)
    to_front = (start, *(axis for axis in range(rank) if axis != start))
    if long is new:
        value = _raised(low, value)
        value = _regrouped(low, value, start + 1, 0, new[1]) if short else value
        return _transposed(low, value, tuple(to_front.index(axis) for axis in range(rank)))
    value = _transposed(low, value, to_front)
    return _lowered(low, _regrouped(low, value, 0, start + 1, 1) if short else value)


def _regrouped(low: Lowering, value: Value, dim: int, other: int, length: int) -> Value:
    """Parts of `length` elements of `dim`, one after another along `other`."""
    starts = range(0, value.shape[dim], length)
    return concatenate(low, [slice_of(low, value, dim, start, length) for start in starts], other)


def _raised(low: Lowering, value: Value) -> Value:
    """With a first dimension of size 1, which comes with a factor of a higher rank."""
    ones = low.constant(np.ones((1,) * (len(value.shape) + 1)))
    return low.emit(g.Multiply, [value, ones], (1, *value.shape), FIRST)


def _lowered(low: Lowering, value: Value) -> Value:
    """Without the first dimension of size 1: with another one, it is an image of one pixel, whose average has no size."""
    raised = _raised(low, value)
    last = len(raised.shape) - 1
    pixel = _transposed(low, raised, (*range(2, last), 0, 1, last))
    return low.emit(g.GlobalAvgPooling2d, [pixel], value.shape[1:], FIRST, flags=0)


def _transposed(low: Lowering, value: Value, order: Shape) -> Value:
    """As `low.permute`, but without a reshape, also where only sizes of 1 change places."""
    if order == tuple(range(len(order))):
        return value
    return low.emit(g.StaticTranspose, [value], tuple(value.shape[i] for i in order), FIRST, perm=order)


def expand(low: Lowering, value: Value, shape: Shape) -> Value:
    """`value` repeated along dimensions of size 1 to `shape`: a product with ones, which changes no number."""
    value = low.reshape(value, (1,) * (len(shape) - len(value.shape)) + value.shape)
    if value.shape == shape:
        return value
    if value.constant is not None:
        return low.constant(np.broadcast_to(value.constant, shape))
    ones = np.ones([out if out != size else 1 for size, out in zip(value.shape, shape, strict=True)], np.float32)
    return binary(low, g.Multiply, value, low.constant(ones))


@lowers(aten.expand_copy.default, dtypes=FLOAT_OR_BOOL)
def _expand(low: Lowering, node: Node) -> Value:
    return expand(low, low.input(), low.shape)


@lowers(aten.copy.default, dtypes=FLOAT_OR_BOOL)
def _write(low: Lowering, node: Node) -> Value:
    return expand(low, low.value(low.argument("src")), low.shape)


@lowers(aten.repeat.default, dtypes=FLOAT_OR_BOOL)
def _repeat(low: Lowering, node: Node) -> Value:
    """One dimension after the other, each with a new one before it."""
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
def _permute(low: Lowering, node: Node) -> Value:
    rank = len(low.shape)
    return low.permute(low.input(), tuple(int(dim) % rank for dim in low.argument("dims")))


@lowers(aten.transpose_copy.int, dtypes=FLOAT_OR_BOOL)
def _transpose(low: Lowering, node: Node) -> Value:
    order = list(range(len(low.shape)))
    a, b = int(low.argument("dim0")), int(low.argument("dim1"))
    order[a], order[b] = order[b], order[a]
    return low.permute(low.input(), tuple(order))


@lowers(aten.t_copy.default, dtypes=FLOAT_OR_BOOL)
def _t(low: Lowering, node: Node) -> Value:
    return low.permute(low.input(), tuple(reversed(range(len(low.shape)))))


def slice_of(low: Lowering, value: Value, dim: int, start: int, length: int) -> Value:
    """`length` elements of dimension `dim` from `start`."""
    shape = (*value.shape[:dim], length, *value.shape[dim + 1 :])
    if shape == value.shape:
        return value
    offsets = tuple(start if axis == dim else 0 for axis in range(len(shape)))
    return low.emit(g.StaticSlice, [value], shape, TIED, offsets=offsets, sizes=shape)


def _pads(sizes: Any, rank: int) -> tuple[list[int], list[int]]:
    """What `constant_pad_nd` adds before and after each dimension."""
    before, after = [0] * rank, [0] * rank
    for index in range(len(sizes) // 2):
        before[-1 - index], after[-1 - index] = int(sizes[2 * index]), int(sizes[2 * index + 1])
    return before, after


def _check_pad(query: Query) -> str | None:
    shape = query.sizes.of(query.node.args[0].meta["val"])  # type: ignore[union-attr]
    for size, *added in zip(shape, *_pads(query.argument("pad"), len(shape)), strict=True):
        if size + sum(min(one, 0) for one in added) < 1:
            return "cuts all of a dimension"
    return None


@lowers(aten.constant_pad_nd.default, check=_check_pad, constraints="leaves some of each dimension before it adds")
def _constant_pad(low: Lowering, node: Node) -> Value:
    """Negative sizes cut."""
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


@lowers(aten.slice_copy.Tensor, check=_check_slice, constraints="step 1 where the rank is 6",
        dtypes=FLOAT_OR_BOOL)  # fmt: skip
def _slice(low: Lowering, node: Node) -> Value:
    value = low.input()
    dim, step = int(low.argument("dim")) % len(value.shape), int(low.argument("step"))
    size, length, start = value.shape[dim], low.shape[dim], low.argument("start") or 0
    start = min(max(start + size if start < 0 else start, 0), size)
    if step == 1:
        return slice_of(low, value, dim, start, length)
    # As [..., length, step, ...], of which the first of each step is wanted.
    span = length * step
    value = slice_of(low, value, dim, start, min(span, size - start))
    missing = tuple(span - value.shape[dim] if axis == dim else 0 for axis in range(len(value.shape)))
    if any(missing):
        value = pad(low, value, (0,) * len(missing), missing, 0.0)
    steps = low.reshape(value, (*value.shape[:dim], length, step, *value.shape[dim + 1 :]))
    return low.reshape(slice_of(low, steps, dim + 1, 0, 1), low.shape)


@lowers(aten.select_copy.int, dtypes=FLOAT_OR_BOOL)
def _select(low: Lowering, node: Node) -> Value:
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
        parts.append(slice_of(low, value, dim, start, length) if length else None)  # what is empty, nothing reads
        start += length
    return parts


@lowers(aten.unbind_copy.int)
def _unbind(low: Lowering, node: Node) -> list[Value]:
    value = low.input()
    dim = int(low.argument("dim")) % len(value.shape)
    shape = (*value.shape[:dim], *value.shape[dim + 1 :])
    return [low.reshape(slice_of(low, value, dim, index, 1), shape) for index in range(value.shape[dim])]


@lowers(aten.stack.default, dtypes=FLOAT_OR_BOOL)
def _stack(low: Lowering, node: Node) -> Value:
    dim = int(low.argument("dim")) % len(low.shape)
    shape = (*low.shape[:dim], 1, *low.shape[dim + 1 :])
    return concatenate(low, [low.reshape(low.value(source), shape) for source in low.argument("tensors")], dim)


def _replaced(low: Lowering, value: Value, part: Value, dim: int, start: int) -> Value:
    """`value` with `part` in the place of its elements from `start` of dimension `dim`."""
    end = start + part.shape[dim]
    before, after = (0, start), (end, value.shape[dim] - end)
    around = [slice_of(low, value, dim, *one) if one[1] else None for one in (before, after)]
    return concatenate(low, [one for one in (around[0], part, around[1]) if one is not None], dim)


@lowers(aten.select_scatter.default)
def _select_scatter(low: Lowering, node: Node) -> Value:
    value = low.input()
    dim = int(low.argument("dim")) % len(value.shape)
    part = low.reshape(low.value(low.argument("src")), (*value.shape[:dim], 1, *value.shape[dim + 1 :]))
    return _replaced(low, value, part, dim, int(low.argument("index")) % value.shape[dim])


def _check_scatter(query: Query) -> str | None:
    return None if query.argument("step") == 1 else f"step {query.argument('step')}"


@lowers(aten.slice_scatter.default, check=_check_scatter, constraints="step 1")
def _slice_scatter(low: Lowering, node: Node) -> Value:
    value, part = low.input(), low.value(low.argument("src"))
    dim = int(low.argument("dim")) % len(value.shape)
    size, start = value.shape[dim], low.argument("start") or 0
    start = min(max(start + size if start < 0 else start, 0), size)
    return part if part.shape == value.shape else _replaced(low, value, part, dim, start)
