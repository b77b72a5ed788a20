"""Views in a graph with in-place writes: which tensor shares memory with a view, and how a write changes it.

After a write to a view's base, `functionalize` computes the view again. After a write to a view, it puts the new
content back into the base.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch.fx import Node

from edgecore.ir.graph import Editor, compute_val
from edgecore.ir.op_args import argument
from edgecore.ir.torch_compat import OpOverload, schema_of, storage_identity

aten = torch.ops.aten


class UnknownView(Exception):
    """A view through which edgecore cannot write; torch's functionalization can."""


PutBack = Callable[[Editor, Node, Node, Node], Node]
"""A function (editor, view, source, new) that returns the content of `source`, the input of `view`, after the view's
content became `new`."""

_MAY_RETURN_INPUT = {"contiguous", "to", "type_as"}
"""Composite operators that may return their input, although their schemas do not declare it."""


def aliased(node: Node) -> Node | None:
    """Return the argument whose memory the value of `node` may share, or None."""
    if node.op != "call_function" or not node.args or not isinstance(node.args[0], Node):
        return None
    if not isinstance(node.target, OpOverload):
        return node.args[0]
    schema = schema_of(node.target)
    aliases = any(value.alias_info is not None for value in schema.returns)
    return node.args[0] if aliases or schema.name.partition("::")[2].rstrip("_") in _MAY_RETURN_INPUT else None


def shared_source(node: Node, mode: Any) -> Node | None:
    """Return the argument whose memory the value of `node` shares, or None.

    Operators such as `reshape` and `contiguous` return a copy or a view, depending on strides: fake tensors decide.
    """
    source = aliased(node)
    if node.target is operator.getitem:
        return source if source is not None and aliased(source) is not None and _is_list_of_views(source) else None
    if source is None or not isinstance(node.target, OpOverload):
        return None
    if node.target in _ALWAYS_VIEWS:
        return source
    return source if memories(result_of(node, mode)) & memories(source.meta["val"]) else None


def result_of(node: Node, mode: Any) -> Any:
    """Return the fake result of a call. As in eager mode, it may share memory with the arguments (their `val`s)."""
    assert callable(node.target)
    # Ignore the new symbolic numbers that calls such as `item` make, because no node of the graph uses them.
    with mode.shape_env.ignore_fresh_unbacked_symbols() if mode.shape_env is not None else nullcontext():
        return compute_val(mode, node.target, node.args, node.kwargs)


def memories(val: Any) -> set[int]:
    """Return the identities of the storages of a tensor, or of the tensors in a list."""
    values = val if isinstance(val, (list, tuple)) else [val]
    return {storage_identity(value) for value in values if isinstance(value, torch.Tensor)}


def _is_list_of_views(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and isinstance(node.meta["val"], (list, tuple))


def can_put_back(target: Any) -> bool:
    """Return True if edgecore can write through the views that an operator returns."""
    return target in _PUT_BACK or target in _SPLITS or target is aten.unbind.int


def put_back(editor: Editor, view: Node, source: Node, new: Node) -> Node:
    """Return the content of `source` after `new` became the content of `view`.

    Args:
        editor: The position for new nodes.
        view: The node of the view. Its first argument may be a node with older content of `source`.
        source: The content of the view's input before the write.
        new: The new content of the view.

    Raises:
        UnknownView: The view is of a kind through which edgecore cannot write.
    """
    if view.target is operator.getitem:
        parts = view.args[0]
        assert isinstance(parts, Node)
        return _put_part_back(editor, parts, view.args[1], source, new)
    put = _PUT_BACK.get(view.target)
    if put is None:
        raise UnknownView(str(view.target))
    return put(editor, view, source, new)


def _put_part_back(editor: Editor, parts: Node, index: Any, source: Node, new: Node) -> Node:
    """Write `new`, the content of one part that `split` or `unbind` returned, back into the tensor that was split."""
    if parts.target is aten.unbind.int:
        return editor.call(aten.select_scatter.default, source, new, argument(parts, "dim"), index)
    if parts.target not in _SPLITS:
        raise UnknownView(str(parts.target))
    dim = argument(parts, "dim")
    sizes = [part.shape[dim] for part in parts.meta["val"][: index + 1]]
    if not all(isinstance(size, int) for size in sizes):
        raise UnknownView(f"{parts.target} with symbolic sizes")
    return editor.call(aten.slice_scatter.default, source, new, dim, sum(sizes[:-1]), sum(sizes))


def _same(editor: Editor, view: Node, source: Node, new: Node) -> Node:
    return new


def _reshaped(editor: Editor, view: Node, source: Node, new: Node) -> Node:
    shape = list(source.meta["val"].shape)
    if all(isinstance(size, int) for size in shape):
        return editor.call(aten.reshape.default, new, shape)
    return editor.call(aten.reshape_as.default, new, source)


def _expanded(editor: Editor, view: Node, source: Node, new: Node) -> Node:
    if list(view.meta["val"].shape) == list(source.meta["val"].shape):
        return new
    raise UnknownView("a write to repeated elements")


def _slice(editor: Editor, view: Node, source: Node, new: Node) -> Node:
    options = [argument(view, name) for name in ("dim", "start", "end", "step")]
    return editor.call(aten.slice_scatter.default, source, new, *options)


def _narrow(editor: Editor, view: Node, source: Node, new: Node) -> Node:
    dim, start, length = (argument(view, name) for name in ("dim", "start", "length"))
    if not isinstance(start, int) or not isinstance(length, int):
        raise UnknownView("narrow with symbolic sizes")
    size = source.meta["val"].shape[dim]
    start = start + size if start < 0 else start
    return editor.call(aten.slice_scatter.default, source, new, dim, start, start + length)


def _select(editor: Editor, view: Node, source: Node, new: Node) -> Node:
    return editor.call(aten.select_scatter.default, source, new, argument(view, "dim"), argument(view, "index"))


def _diagonal(editor: Editor, view: Node, source: Node, new: Node) -> Node:
    options = [argument(view, name) for name in ("offset", "dim1", "dim2")]
    return editor.call(aten.diagonal_scatter.default, source, new, *options)


def _transposed(editor: Editor, view: Node, source: Node, new: Node) -> Node:
    return editor.call(aten.transpose.int, new, argument(view, "dim0"), argument(view, "dim1"))


def _t(editor: Editor, view: Node, source: Node, new: Node) -> Node:
    return editor.call(aten.t.default, new)


def _permuted(editor: Editor, view: Node, source: Node, new: Node) -> Node:
    dims = [dim % new.meta["val"].dim() for dim in argument(view, "dims")]
    return editor.call(aten.permute.default, new, [dims.index(dim) for dim in range(len(dims))])


def _strided(editor: Editor, view: Node, source: Node, new: Node) -> Node:
    """Write `new` through an `as_strided` view, to computed indices of the flattened source, which owns the memory."""
    sizes, strides, offset = (argument(view, name) for name in ("size", "stride", "storage_offset"))
    shape = list(source.meta["val"].shape)
    steps = list(zip(sizes, strides, strict=True))
    if not all(isinstance(number, int) for number in (*sizes, *strides, offset, *shape)):
        raise UnknownView("as_strided with symbolic sizes")
    if any(size > 1 and stride == 0 for size, stride in steps):
        raise UnknownView("a write to repeated elements")
    places = editor.call(aten.full.default, [1] * len(sizes), offset, dtype=torch.int64)
    for dim, (size, stride) in enumerate(steps):
        along = editor.call(aten.arange.start_step, 0, size * max(stride, 1), max(stride, 1))
        column = editor.call(aten.reshape.default, along, [-1, *[1] * (len(sizes) - dim - 1)])
        places = editor.call(aten.add.Tensor, places, column)
    flat, index, values = (editor.call(aten.reshape.default, value, [-1]) for value in (source, places, new))
    written = editor.call(aten.scatter.src, flat, 0, index, values)
    return editor.call(aten.reshape.default, written, shape)


_PUT_BACK: dict[Any, PutBack] = {
    aten.alias.default: _same,
    aten.detach.default: _same,
    aten.contiguous.default: _same,
    aten.to.dtype: _same,
    aten.to.dtype_layout: _same,
    aten.to.device: _same,
    aten.to.other: _same,
    aten.type_as.default: _same,
    aten.view.default: _reshaped,
    aten.view_as.default: _reshaped,
    aten.reshape.default: _reshaped,
    aten.reshape_as.default: _reshaped,
    aten.flatten.using_ints: _reshaped,
    aten.unflatten.int: _reshaped,
    aten.squeeze.default: _reshaped,
    aten.squeeze.dim: _reshaped,
    aten.squeeze.dims: _reshaped,
    aten.unsqueeze.default: _reshaped,
    aten.expand.default: _expanded,
    aten.expand_as.default: _expanded,
    aten.slice.Tensor: _slice,
    aten.narrow.default: _narrow,
    aten.select.int: _select,
    aten.diagonal.default: _diagonal,
    aten.transpose.int: _transposed,
    aten.t.default: _t,
    aten.permute.default: _permuted,
    aten.as_strided.default: _strided,
}

_SPLITS = {aten.split.Tensor, aten.split_with_sizes.default, aten.split.sizes, aten.chunk.default}

_ALWAYS_VIEWS = {
    aten.alias.default,
    aten.as_strided.default,
    aten.detach.default,
    aten.view.default,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.unsqueeze.default,
    aten.expand.default,
    aten.slice.Tensor,
    aten.select.int,
    aten.diagonal.default,
    aten.transpose.int,
    aten.t.default,
    aten.permute.default,
    aten.split.Tensor,
    aten.split_with_sizes.default,
    aten.unbind.int,
}
