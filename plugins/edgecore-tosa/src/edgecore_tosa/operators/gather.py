"""Lower operators that read rows by index to TOSA: embedding, index_select, index and gather."""

from __future__ import annotations

from math import prod

import numpy as np
import torch
from torch.fx import Node

from edgecore.sdk import NodeQuery
from edgecore_tosa.builder.builder import Builder, Value
from edgecore_tosa.builder.operator_table import FLOAT, INTEGER, Query, Row, needs_more_than_u55
from edgecore_tosa.graph import Array, Tensor
from edgecore_tosa.operators.movement import reshaped
from edgecore_tosa.operators.parts import joined, part
from edgecore_tosa.schema import DType, Op

aten = torch.ops.aten

_MAX_PARTS = 8
"""Maximum number of slices that may replace a GATHER."""

_MAX_PARTS_WITHOUT_GATHER = 64


def runs(indices: Array) -> list[tuple[int, int]]:
    """Split indices into maximal runs that count up by 1, such as 4, 5, 6; return (first, count) of each run."""
    ends = np.flatnonzero(np.diff(indices) != 1) + 1
    return [(int(run[0]), len(run)) for run in np.split(indices, ends)]


def gathered(b: Builder, tensor: Tensor, axis: int, indices: Tensor) -> Tensor:
    """Emit a GATHER of a tensor along dim `axis`, by a tensor of int32 indices."""
    shape, count = tensor.shape, indices.elements
    batch, after = prod(shape[:axis]), prod(shape[axis + 1 :])
    rows = b.reshape(tensor, (batch, shape[axis], after))
    if indices.data is not None:
        numbers = b.constant(np.broadcast_to(indices.data, (batch, count)), DType.INT32)
    else:
        numbers = b.reshape(indices, (1, count))
        if batch > 1:
            numbers = b.emit(Op.TILE, [numbers, b.sizes([batch, 1])], (batch, count), DType.INT32)
    result = b.emit(Op.GATHER, [rows, numbers], (batch, count, after), tensor.dtype)
    return b.reshape(result, (*shape[:axis], count, *shape[axis + 1 :]))


def _taken(b: Builder, x: Value, dim: int, node: Node, *, from_end: bool = False) -> Value:
    """Gather along a dim of a value by the indices in a node. If constant indices form few `runs`, emit slices instead.

    If `from_end` is true, negative indices count from the end.
    """
    known = b.constant_of(node)
    if known is None:
        indices = b.value(node).tensor
        if from_end:
            is_negative = b.compute(Op.GREATER, 0, indices)
            indices = b.compute(Op.SELECT, is_negative, b.compute(Op.ADD, indices, x.shape[dim]), indices)
        return Value(gathered(b, x.tensor, x.axis(dim), indices), x.order, x.quantization)
    numbers = known.numpy().reshape(-1) % x.shape[dim]
    slices = runs(numbers)
    if len(slices) <= (_MAX_PARTS_WITHOUT_GATHER if b.spec.is_u55 else _MAX_PARTS):
        return joined(b, [part(b, x, dim, start, count) for start, count in slices], dim)
    return Value(gathered(b, x.tensor, x.axis(dim), b.constant(numbers, DType.INT32)), x.order, x.quantization)


def _embedding(b: Builder) -> Value:
    return reshaped(b, _taken(b, b.convert(b.input("weight"), b.quantization), 0, b.argument("indices")), b.shape)


def _index_select(b: Builder) -> Value:
    x = b.convert(b.input(), b.quantization)
    return _taken(b, x, b.argument("dim") % len(x.shape), b.argument("index"))


def _index(b: Builder) -> Value:
    x = b.convert(b.input(), b.quantization)
    ((dim, node),) = _indexed(b.argument("indices"))
    return _taken(b, x, dim, node, from_end=True)


def _indexed(indices: list[Node | None]) -> list[tuple[int, Node]]:
    return [(dim, node) for dim, node in enumerate(indices) if node is not None]


def _gather(b: Builder) -> Value:
    """Gather with a constant index per element. The indexed dim is moved to the end, and all other dims are batches."""
    x, dim = b.convert(b.input(), b.quantization), b.argument("dim") % len(b.shape)
    known = b.constant_of(b.argument("index"))
    assert known is not None
    order = [*(other for other in x.order if other != dim), dim]
    tensor, size = b.read(x, order), x.shape[dim]
    indices = known.numpy().transpose(order).reshape(-1, b.shape[dim])
    rows = b.reshape(tensor, (len(indices), size, 1))
    inputs = [rows, b.constant(indices, DType.INT32)]
    result = b.emit(Op.GATHER, inputs, (*indices.shape, 1), tensor.dtype)
    return Value(b.reshape(result, [b.shape[dim] for dim in order]), tuple(order), x.quantization)


def _reason(query: Query, node: Node) -> str | None:
    """Return why the target does not support an index argument, or None if it does."""
    if not query.is_constant(node):
        if query.spec.is_u55:
            return "its indices are not known when compiling, and the target has no GATHER"
        dtype = node.meta["val"].dtype
        return None if dtype == torch.int32 else "its indices are not known when compiling and not int32"
    indices = query.constant(node)
    if indices.dtype not in (torch.int32, torch.int64):
        return "its indices are no integers"
    count = len(runs(indices.numpy().reshape(-1)))
    if query.spec.is_u55 and count > _MAX_PARTS_WITHOUT_GATHER:
        return f"its indices need {count} slices, more than {_MAX_PARTS_WITHOUT_GATHER}, and the target has no GATHER"
    return None


def _check_embedding(query: NodeQuery) -> str | None:
    assert isinstance(query, Query)
    return _reason(query, query.argument("indices"))


def _check_index_select(query: NodeQuery) -> str | None:
    assert isinstance(query, Query)
    return _reason(query, query.argument("index"))


def _check_index(query: NodeQuery) -> str | None:
    assert isinstance(query, Query)
    indexed = _indexed(query.argument("indices"))
    if len(indexed) != 1 or indexed[0][1].meta["val"].dim() != 1:
        return "not one list of indices"
    return _reason(query, indexed[0][1])


def _check_gather(query: NodeQuery) -> str | None:
    assert isinstance(query, Query)
    index = query.argument("index")
    if not query.is_constant(index):
        return "its indices are not known when compiling"
    sizes, dim = list(query.sizes("self")), query.argument("dim")
    sizes[dim] = index.meta["val"].shape[dim]
    return None if sizes == list(index.meta["val"].shape) else "its indices are fewer than its input in another dim"


_DTYPES = FLOAT + INTEGER
_KNOWN = f"known indices, at most {_MAX_PARTS_WITHOUT_GATHER} runs of them"
_COMPUTED = "known indices, or int32"

ROWS = (
    Row(aten.embedding.default, _DTYPES, _COMPUTED, _check_embedding, False, _embedding, ("indices",), on_u55=_KNOWN),
    Row(
        aten.index_select.default,
        _DTYPES,
        _COMPUTED,
        _check_index_select,
        False,
        _index_select,
        ("index",),
        on_u55=_KNOWN,
    ),
    Row(
        aten.index.Tensor,
        _DTYPES,
        f"one list of indices; {_COMPUTED}",
        _check_index,
        False,
        _index,
        ("indices",),
        on_u55=f"one list of indices; {_KNOWN}",
    ),
    Row(
        aten.gather.default,
        _DTYPES,
        "known indices",
        _check_gather,
        False,
        _gather,
        ("index",),
        lacks=needs_more_than_u55,
    ),
)
