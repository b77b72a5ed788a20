"""KV caches: mutable buffers that the delegate keeps, updates in place and reads in place."""

from __future__ import annotations

import operator

import torch
from torch.fx import Node

from edgecore.sdk import MutableBuffer, without_repeated_heads
from edgecore_xnnpack.graph.lower import Lowering
from edgecore_xnnpack.graph.subgraph import FIRST, Shape, SubgraphValue
from edgecore_xnnpack.operator_table import TABLE, Query, lowers
from edgecore_xnnpack.schema import graph as g
from edgecore_xnnpack.schema.graph import MAX_RANK

aten = torch.ops.aten


def can_hold(buffer: MutableBuffer) -> bool:
    """Return True if the delegate can keep a mutable buffer.

    The buffer must be contiguous and fp32. Either the program only reads the buffer, or it updates the buffer with an
    operator that `is_update` accepts and otherwise reads only the result of this update.
    """
    tensor = buffer.initial
    if tensor.dtype != torch.float32 or not tensor.is_contiguous() or not 1 <= tensor.dim() <= MAX_RANK:
        return False
    return not buffer.is_written or (is_update(buffer.update) and list(buffer.node.users) == [buffer.update])


def is_update(node: Node) -> bool:
    """Return True for an operator that becomes a `CacheUpdate`, if the delegate keeps the updated buffer."""
    return node.target is aten.index_put.default


def cache_of(node: Node) -> Node | None:
    """Return the update of the KV cache [..., heads, positions, channels] that attention reads through `node`, or None.

    `node` is the update itself, or an operation that repeats the heads.
    """
    cache = without_repeated_heads(node)
    return cache if is_update(cache) else None


def _index(indices: list[Node | None]) -> tuple[int, Node] | None:
    """Return the dim that an index_put node indexes, and the index tensor; None if the node indexes several dims."""
    by_dim = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    return by_dim[0] if len(by_dim) == 1 else None


def _rows_shape(cache: Shape, dim: int, count: int) -> Shape:
    return (*cache[:dim], count, *cache[dim + 1 :])


def _without_leading_ones(shape: Shape) -> Shape:
    first = next((i for i, size in enumerate(shape) if size != 1), len(shape))
    return shape[first:]


def _check_update(query: Query) -> str | None:
    buffer = query.buffers.get(query.argument("self"))
    if buffer is None or buffer.update is not query.node:
        return "not the update of a mutable buffer"
    if query.argument("accumulate"):
        return "adds to the old content"
    indexed = _index(query.argument("indices"))
    if indexed is None:
        return "indexes several dims"
    dim, index = indexed
    val = index.meta["val"]
    if val.dtype != torch.int64 or val.dim() != 1 or query.is_constant(index):
        return "the positions are not an int64 tensor of rank 1 that is computed at run time"
    source = index.args[0] if index.target is operator.getitem else index
    if isinstance(source, Node) and source.op == "call_function" and not TABLE.unsupported_reason(query.about(source)):
        return "the positions are computed by an operator of the delegate, as int32"
    rows = _rows_shape(query.shape, dim, query.shape_of(index)[0])
    values = query.shape_of(query.argument("values"))
    if query.is_constant(query.argument("values")) or _without_leading_ones(values) != _without_leading_ones(rows):
        return f"the new rows are constant, or have the shape {list(values)} instead of {list(rows)}"
    return None


@lowers(aten.index_put.default, check=_check_update, any_dtype=("indices",), has_half=False,
        constraints="the update of a mutable buffer that the delegate keeps; int64 positions in one dim")  # fmt: skip
def _update(low: Lowering, node: Node) -> SubgraphValue:
    """Emit a `CacheUpdate`, which writes new rows into the delegate's KV cache; its output is the cache's memory."""
    indexed = _index(low.argument("indices"))
    assert indexed is not None
    dim, index = indexed
    cache, positions = low.input(), low.value(index)
    rows = low.reshape(low.value(low.argument("values")), _rows_shape(cache.shape, dim, positions.shape[0]))
    return low.emit(g.CacheUpdate, [cache, rows, positions], cache.shape, FIRST, dim=dim)
