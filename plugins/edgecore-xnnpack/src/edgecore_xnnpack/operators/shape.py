"""Operators that move elements."""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch.fx import Node

from edgecore_xnnpack.lowering import Lowering
from edgecore_xnnpack.net import TIED, Value
from edgecore_xnnpack.operators.pooling import pad
from edgecore_xnnpack.operators.table import Query, lowers
from edgecore_xnnpack.schema import graph as g

aten = torch.ops.aten

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


@lowers(aten.cat.default)
def _cat(low: Lowering, node: Node) -> Value:
    values = [low.value(source) for source in low.argument("tensors")]
    return concatenate(low, values, int(low.argument("dim")) % len(low.shape))


@lowers(aten.view_copy.default, aten.squeeze_copy.dim, aten.squeeze_copy.dims, aten.unsqueeze_copy.default)
def _view(low: Lowering, node: Node) -> Value:
    return low.reshape(low.input(), low.shape)


def _check_expand(query: Query) -> str | None:
    return None if prod(query.shape) == prod(query.output_shape) else "repeats elements"


@lowers(aten.expand_copy.default, check=_check_expand, constraints="same number of elements")
def _expand(low: Lowering, node: Node) -> Value:
    return low.reshape(low.input(), low.shape)


@lowers(aten.permute_copy.default)
def _permute(low: Lowering, node: Node) -> Value:
    rank = len(low.shape)
    return low.permute(low.input(), tuple(int(dim) % rank for dim in low.argument("dims")))


@lowers(aten.transpose_copy.int)
def _transpose(low: Lowering, node: Node) -> Value:
    order = list(range(len(low.shape)))
    a, b = int(low.argument("dim0")), int(low.argument("dim1"))
    order[a], order[b] = order[b], order[a]
    return low.permute(low.input(), tuple(order))


@lowers(aten.t_copy.default)
def _t(low: Lowering, node: Node) -> Value:
    return low.permute(low.input(), tuple(reversed(range(len(low.shape)))))


def _check_pad(query: Query) -> str | None:
    return "negative padding" if any(size < 0 for size in query.argument("pad")) else None


@lowers(aten.constant_pad_nd.default, check=_check_pad, constraints="no negative padding")
def _constant_pad(low: Lowering, node: Node) -> Value:
    sizes, value = [int(size) for size in low.argument("pad")], low.input()
    before, after = [0] * len(value.shape), [0] * len(value.shape)
    for index in range(len(sizes) // 2):
        before[-1 - index], after[-1 - index] = sizes[2 * index], sizes[2 * index + 1]
    return pad(low, value, tuple(before), tuple(after), float(low.argument("value")))


def slice_of(low: Lowering, value: Value, dim: int, start: int, length: int) -> Value:
    """`length` elements of dimension `dim` from `start`."""
    shape = (*value.shape[:dim], length, *value.shape[dim + 1 :])
    if shape == value.shape:
        return value
    offsets = tuple(start if axis == dim else 0 for axis in range(len(shape)))
    return low.emit(g.StaticSlice, [value], shape, TIED, offsets=offsets, sizes=shape)


def _check_slice(query: Query) -> str | None:
    return None if query.argument("step") == 1 else f"step {query.argument('step')}"


@lowers(aten.slice_copy.Tensor, check=_check_slice, constraints="step 1")
def _slice(low: Lowering, node: Node) -> Value:
    value = low.input()
    dim = int(low.argument("dim")) % len(value.shape)
    size, start = value.shape[dim], low.argument("start") or 0
    start = min(max(start + size if start < 0 else start, 0), size)
    return slice_of(low, value, dim, start, low.shape[dim])


@lowers(aten.select_copy.int)
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
        parts.append(slice_of(low, value, dim, start, length))
        start += length
    return parts
