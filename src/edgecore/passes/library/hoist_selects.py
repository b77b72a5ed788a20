"""Hoist selects: select from a tensor before it is reshaped and permuted, instead of after that."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from edgecore.ir.control_flow import graph_modules
from edgecore.ir.dialect.op_sets import PERMUTATIONS, RESHAPES
from edgecore.ir.graph import Editor, calls, edit, fake_mode, replace, same_sizes, view_sizes
from edgecore.passes.library.merge_views import order_of

aten = torch.ops.aten


def hoist_selects(program: ExportedProgram) -> ExportedProgram:
    """Move selects before the reshapes and permutations of a tensor whose users all select indices of the same dim.

    The moved selects copy only the parts that are read, and the reshapes and permutations then work on tensors with one
    dim less. For example, attention layers compute queries, keys and values by one linear layer, reshape the result to
    5 dims and unbind it; after this pass, they read slices of the linear layer's result.
    """
    with edit(program) as graph_module:
        mode = fake_mode(graph_module)
        for part in graph_modules(graph_module):
            for node in calls(part, aten.select_copy.int, aten.unbind_copy.int):
                _hoist(part, node, mode)
    return program


@dataclass
class _Route:
    """A way to compute a select from an earlier node: slice or select `source`, then apply `steps` in reverse."""

    source: Node
    dim: int
    steps: list[tuple[Any, list[int]]]
    # Number of elements along `dim` of `source` that belong to one index of the select; 0 to use a select, not a slice.
    width: int = 0


def _hoist(graph_module: GraphModule, node: Node, mode: Any) -> None:
    source = node.args[0]
    assert isinstance(source, Node)
    dim = _dim_read_by(node, source)
    assert dim is not None
    size = source.meta["val"].shape[dim]
    if not isinstance(size, int) or size < 2 or not all(_dim_read_by(user, source) == dim for user in source.users):
        return
    if node.target is aten.unbind_copy.int:
        parts = [(user, user.args[1]) for user in node.users if user.target is operator.getitem]
    else:
        parts = [(node, node.args[2])]
    indices = {part: index % size for part, index in parts if isinstance(index, int)}
    route = _route(source, dim)
    if len(indices) < len(parts) or not route.steps:
        return
    for part, index in indices.items():
        editor = Editor(graph_module, part, mode)
        replace(part, _take(editor, route, index))


def _dim_read_by(user: Node, source: Node) -> int | None:
    """Return the dim along which `user`, a select or unbind, reads single indices; None for other users."""
    if user.target not in (aten.select_copy.int, aten.unbind_copy.int):
        return None
    dim = user.args[1] if len(user.args) > 1 else 0
    assert isinstance(dim, int)
    return dim % int(source.meta["val"].dim())


def _route(source: Node, dim: int) -> _Route:
    """Walk back over reshapes and permutations to the earliest node from which an index along `dim` can be taken."""
    route = _Route(source, dim, [])
    while not route.width and source.op == "call_function" and (not route.steps or len(source.users) == 1):
        before: Any = source.args[0]
        rest = _without(source.meta["val"].shape, route.dim)
        if source.target in PERMUTATIONS:
            order = order_of(source)
            dim = order[route.dim]
            moved = [position - (position > dim) for position in _without(order, route.dim)]
            step = _permutation(moved, rest)
        elif source.target in RESHAPES:
            sizes = view_sizes(rest)
            place = _same_dim(before.meta["val"].shape, source.meta["val"].shape, route.dim)
            if sizes is None or place is None:
                break
            dim, route.width = place
            step = (aten.view_copy.default, sizes)
        else:
            break
        route.steps.append(step)
        route.source, route.dim = before, dim
        source = before
    return route


def _permutation(order: list[int], shape: Sequence[Any]) -> tuple[Any, list[int]]:
    """Return (operator, argument) that permutes dims by `order`: a view to `shape` if only dims of size 1 move."""
    larger = [dim for dim, size in zip(order, shape, strict=True) if not isinstance(size, int) or size != 1]
    sizes = view_sizes(shape)
    if larger == sorted(larger) and sizes is not None:
        return aten.view_copy.default, sizes
    return aten.permute_copy.default, order


def _same_dim(before: Sequence[Any], after: Sequence[Any], dim: int) -> tuple[int, int] | None:
    """Find the dim of `before` that contains `dim` of `after`, and the number of its elements per index of `dim`.

    This number is 0 if the two dims are equal. [2, 12] -> [2, 3, 4] gives (1, 4) for dim 1.
    """
    outer = [size for size in after[:dim] if not isinstance(size, int) or size != 1]
    skipped = 0
    for index, size in enumerate(before):
        if isinstance(size, int) and size == 1:
            continue
        if skipped < len(outer):
            if not same_sizes([size], [outer[skipped]]):
                return None
            skipped += 1
        elif same_sizes([size], [after[dim]]):
            return index, 0
        elif isinstance(size, int) and size and size % after[dim] == 0:
            return index, size // int(after[dim])
        else:
            return None
    return None


def _take(editor: Editor, route: _Route, index: int) -> Node:
    if route.width:
        start, end = index * route.width, (index + 1) * route.width
        part = editor.call(aten.slice_copy.Tensor, route.source, route.dim, start, end)
    else:
        part = editor.call(aten.select_copy.int, route.source, route.dim, index)
    for target, numbers in reversed(route.steps):
        part = editor.call(target, part, numbers)
    return part


def _without(values: Sequence[Any], index: int) -> list[Any]:
    return [*values[:index], *values[index + 1 :]]
