"""Rewrite calls that read or write parts of a tensor, such as a key-value cache, into calls that coremltools converts.

coremltools converts only index tensors of one element, and treats negative indices wrongly. It does not clamp the
limits of slices, which may be beyond 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from edgecore.sdk import NodeQuery

aten = torch.ops.aten

Add = Callable[..., Node]
"""A function (target, arguments, keywords) that adds a node before the rewritten call and returns it."""
Call = tuple[Any, tuple[Any, ...]]
"""Target and arguments of a call."""


def indexed_dim(query: NodeQuery) -> str | None:
    """Return why an `index` or `index_put` is unsupported, or None. The call must index one dim, of fixed size."""
    tensors = [(dim, index) for dim, index in enumerate(query.argument("indices")) if index is not None]
    if len(tensors) != 1:
        return f"it has {len(tensors)} indices"
    dim, index = tensors[0]
    val, rows = index.meta["val"], _first(query.node).meta["val"].shape[dim]
    if val.dtype not in (torch.int32, torch.int64) or val.dim() != 1:
        return "its index is no list of numbers"
    return None if isinstance(rows, int) else "it has an index of a dynamic dim"


def overwrites(query: NodeQuery) -> str | None:
    """Return why Core ML does not support an `index_put`, or None if it does."""
    if query.argument("accumulate"):
        return "accumulate is True"
    if reason := indexed_dim(query):
        return reason
    target, values = _first(query.node).meta["val"].shape, query.argument("values").meta["val"]
    dim, index = _index(query.argument("indices"))
    shape = [index.meta["val"].shape[0] if d == dim else size for d, size in enumerate(target)]
    is_static = all(isinstance(size, int) for size in shape)
    return None if is_static or list(values.shape) == shape else "it broadcasts its values to a dynamic shape"


def has_fixed_slice(query: NodeQuery) -> str | None:
    """Return why the slice of a `slice_scatter` or `select_scatter` is known only at run time, or None if fixed."""
    numbers = [_first(query.node).meta["val"].shape[query.argument("dim")]]
    is_row = query.node.target is aten.select_scatter.default
    numbers += [query.argument(name) for name in (("index",) if is_row else ("start", "end", "step"))]
    return None if all(isinstance(number, (int, type(None))) for number in numbers) else "its slice is dynamic"


def copies_to_known_shape(query: NodeQuery) -> str | None:
    """Return why Core ML does not support a `copy`, or None. The shape to which it broadcasts must be known."""
    target, source = (query.argument(name).meta["val"].shape for name in ("self", "src"))
    is_static = all(isinstance(size, int) for size in target)
    return None if is_static or target == source else "it broadcasts to a dynamic shape"


def copied(add: Add, target: Node, source: Node, *_: Any) -> Call:
    """Rewrite `copy`: broadcast its source to the target's shape, and convert it to the target's dtype."""
    val, written = target.meta["val"], source.meta["val"]
    if written.dtype != val.dtype:
        source = add(aten._to_copy.default, (source,), dtype=val.dtype)
    return (
        (aten.clone.default, (source,)) if written.shape == val.shape else (aten.expand.default, (source, [*val.shape]))
    )


def selected(add: Add, x: Node, source: Node, dim: int, index: int) -> Call:
    """Rewrite `select_scatter`, which overwrites one index of a dim, to a `slice_scatter` of a slice of size 1."""
    dim %= x.meta["val"].dim()
    start = index % x.meta["val"].shape[dim]
    return sliced(add, x, add(aten.unsqueeze.default, (source, dim)), dim, start, start + 1)


def sliced(
    add: Add, x: Node, source: Node, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Call:
    """Rewrite `slice_scatter` with its slice limits clamped to the size of the dim."""
    dim %= x.meta["val"].dim()
    first, last, _ = slice(start, end, step).indices(x.meta["val"].shape[dim])
    return aten.slice_scatter.default, (x, source, dim, first, max(first, last), step)


def put(add: Add, x: Node, indices: list[Node | None], values: Node, *_: Any) -> Call:
    """Rewrite `index_put` for coremltools, which converts one index in any dim, but several indices only in dim 0."""
    dim, index = _index(indices)
    count, sizes = index.meta["val"].shape[0], list(x.meta["val"].shape)
    index = _from_start(add, index, sizes[dim])
    if count == 1 and dim:
        return aten.index_put.default, (x, [index if d == dim else None for d in range(len(indices))], values)
    shape = [count if d == dim else size for d, size in enumerate(sizes)]
    if list(values.meta["val"].shape) != shape:
        values = add(aten.expand.default, (values, shape))
    if dim == 0:
        return aten.index_put.default, (x, [index], values)
    first = [add(aten.transpose.int, (value, 0, dim)) for value in (x, values)]
    return aten.transpose.int, (add(aten.index_put.default, (first[0], [index], first[1])), 0, dim)


def read(add: Add, x: Node, indices: list[Node | None]) -> Call:
    """Rewrite `index` to `index_select`."""
    dim, index = _index(indices)
    return aten.index_select.default, (x, dim, _from_start(add, index, x.meta["val"].shape[dim]))


REWRITES: dict[Any, Callable[..., Call]] = {
    aten.copy.default: copied,
    aten.index.Tensor: read,
    aten.index_put.default: put,
    aten.select_scatter.default: selected,
    aten.slice_scatter.default: sliced,
}
"""Maps an operator to a function (add, arguments of a call) that returns the call that replaces it."""


def _first(node: Node) -> Node:
    tensor = node.args[0]
    assert isinstance(tensor, Node)
    return tensor


def _index(indices: Any) -> tuple[int, Node]:
    return next((dim, index) for dim, index in enumerate(indices) if index is not None)


def _from_start(add: Add, index: Node, size: int) -> Node:
    """Replace negative indices, which count from the end of a dim, by indices from its start: -1 becomes size - 1."""
    is_negative = add(aten.lt.Scalar, (index, 0))
    return add(aten.where.self, (is_negative, add(aten.add.Tensor, (index, size)), index))
