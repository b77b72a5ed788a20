"""Support mutable buffers that the delegate keeps, such as KV caches: emit calls that declare, update or store them."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from edgecore.sdk import MutableBuffer, arguments_by_name, rank, shape
from edgecore_vulkan.graph.calls import TensorValue
from edgecore_vulkan.operators.builder import FLOAT, INT, Builder, Query, Row

aten = torch.ops.aten

_MAX_RANK = 6


def can_hold(buffer: MutableBuffer) -> bool:
    """Return True if the delegate can keep a mutable buffer.

    If rows of the buffer are updated in place, no other node may read its old content. A buffer that is not updated in
    place gets its new content from a separate tensor, at the end of a run.
    """
    tensor = buffer.initial
    if tensor.dtype not in FLOAT or not tensor.is_contiguous() or not 1 <= tensor.dim() <= _MAX_RANK:
        return False
    return not is_update(buffer.update) or list(buffer.node.users) == [buffer.update]


def is_update(node: Node) -> bool:
    """Return True for an operator that updates rows of a buffer in place."""
    return node.target is aten.index_put.default


def add_states(b: Builder, buffers: list[MutableBuffer]) -> list[tuple[TensorValue, Node]]:
    """Declare each mutable buffer of a partition by a call `edgecore.state` (name, initial content).

    Returns:
        The buffers that `store_states` writes at the end, each with the node that computes its new content. Other calls
        read copies of these buffers, because an output or another buffer may need the old content at the end of the
        run.
    """
    stored = []
    for buffer in buffers:
        tensor = buffer.initial.detach()
        initial = b.constant(tensor)
        # Use the buffer's name as the constant's key, so that a .ptd file can replace the initial content.
        initial.key = buffer.name
        state = TensorValue(tuple(tensor.shape), tensor.dtype)
        b.call("edgecore.state.default", [buffer.name, initial], state)
        b.values[buffer.node] = state
        if buffer.is_written and not is_update(buffer.update):
            b.values[buffer.node] = b.call("aten.clone.default", [state, None], state.like())
            stored.append((state, buffer.update))
    return stored


def store_states(b: Builder, stored: list[tuple[TensorValue, Node]]) -> None:
    """For each buffer that is not updated in place, emit a call (buffer, content) that copies its new content."""
    for state, update in stored:
        b.call("edgecore.store.default", [state, b.value(update)], state.like())


def _only_index(node: Node) -> tuple[int, Any] | None:
    """Return the dim and the tensor of the only index of an `index_put`; None if it indexes several dims."""
    indices: Any = arguments_by_name(node)["indices"]
    indexed = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    return indexed[0] if len(indexed) == 1 else None


def _update(b: Builder, node: Node) -> TensorValue:
    """Emit an `index_put` into a buffer as a call (buffer, positions, rows, dim), which returns the buffer."""
    indexed = _only_index(node)
    assert indexed is not None
    dim, index = indexed
    args = arguments_by_name(node)
    state, positions, rows = (b.value(source) for source in (args["self"], index, args["values"]))
    row_shape = (*state.shape[:dim], positions.shape[0], *state.shape[dim + 1 :])
    if rows.shape != row_shape:
        is_fixed = isinstance(shape(index)[0], int)
        rows = b.view(rows, row_shape, None if is_fixed else (*row_shape[:dim], -1, *row_shape[dim + 1 :]))
    output: TensorValue = b.call("edgecore.update_rows.default", [state, positions, rows, dim], b.result(node))
    return output


def _check_update(query: Query) -> str | None:
    """Return why an `index_put` cannot be an update of a buffer in place, or None if it can."""
    if query.profile.is_stock:
        return "executorch 1.5's delegate keeps no state"
    buffer = query.buffers.get(query.argument("self"))
    if buffer is None or buffer.update is not query.node:
        return "not the update of a mutable buffer"
    if query.argument("accumulate"):
        return "adds to the old content"
    indexed = _only_index(query.node)
    if indexed is None:
        return "indexes several dims"
    dim, index = indexed
    if index.meta["val"].dtype not in INT or rank(index) != 1:
        return "positions that are no integers of one dim"
    old, values = shape(query.node), shape(query.argument("values"))
    row_shape = [*old[:dim], shape(index)[0], *old[dim + 1 :]]
    while row_shape and row_shape[0] == 1:
        row_shape.pop(0)
    sizes = list(values)
    while sizes and sizes[0] == 1:
        sizes.pop(0)
    return None if sizes == row_shape else "rows of another shape than the positions"


ROWS = [
    Row(aten.index_put.default, FLOAT, "update of a kept buffer at positions of one dim; runtime edgecore only",
        _check_update, False, _update, ("indices",)),
]  # fmt: skip
