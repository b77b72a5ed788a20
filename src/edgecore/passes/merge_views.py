"""Chains of reshapes and of permutations become one, or nothing."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from edgecore.ir.graph import Editor, calls, edit, fake_mode, graph_modules, replace, same_sizes
from edgecore.ir.op_sets import PERMUTATIONS, RESHAPES
from edgecore.ir.tensors import dim_order

aten = torch.ops.aten


def merge_views(program: ExportedProgram) -> ExportedProgram:
    """A reshape of a reshape reads the first one's input, a permutation of a permutation too; what cancels goes away, as
    does a concatenation of a single tensor. A copy of an input that a result needs stays.
    """
    with edit(program) as graph_module:
        mode = fake_mode(graph_module)
        for part in graph_modules(graph_module):
            for node in calls(part, *RESHAPES):
                _merge_reshapes(part, node, mode)
            for node in calls(part, *PERMUTATIONS):
                _merge_permutations(part, node, mode)
            for node in calls(part, aten.cat.default):
                sources = node.args[0]
                assert isinstance(sources, (list, tuple))
                if len(sources) == 1 and isinstance(sources[0], Node) and _may_replace(node, sources[0]):
                    replace(node, sources[0])
    return program


def _merge_reshapes(graph_module: GraphModule, node: Node, mode: Any) -> None:
    source = _source(node)
    root = _source(source) if source.target in RESHAPES else source
    while root.op == "call_function" and root.target in RESHAPES:
        root = _source(root)
    if _may_replace(node, root):
        replace(node, root)
    elif root is not source:
        sizes = [size if isinstance(size, int) else -1 for size in node.meta["val"].shape]
        if node.target is aten.view_copy.default:
            node.replace_input_with(source, root)
        elif sizes.count(-1) <= 1:
            editor = Editor(graph_module, node, mode)
            replace(node, editor.call(aten.view_copy.default, root, sizes, val=node.meta["val"]))


def _merge_permutations(graph_module: GraphModule, node: Node, mode: Any) -> None:
    order, root = _order(node), _source(node)
    while root.op == "call_function" and root.target in PERMUTATIONS:
        inner = _order(root)
        order, root = [inner[dim] for dim in order], _source(root)
    if order == sorted(order) and _may_replace(node, root):
        replace(node, root)
    elif root is not _source(node):
        editor = Editor(graph_module, node, mode)
        replace(node, editor.call(aten.permute_copy.default, root, order, val=node.meta["val"]))


def _source(node: Node) -> Node:
    source = node.args[0]
    assert isinstance(source, Node)
    return source


def _order(node: Node) -> list[int]:
    """The permutation that `node` does: result dimension i is dimension order[i] of its input."""
    rank = node.meta["val"].dim()
    if node.target is aten.permute_copy.default:
        dims = node.args[1]
        assert isinstance(dims, (list, tuple))
        return [int(dim) % rank for dim in dims]  # type: ignore[arg-type]
    order = list(range(rank))
    if node.target is aten.t_copy.default:
        return order[::-1]
    first, second = (int(dim) % rank if rank else 0 for dim in node.args[1:3])  # type: ignore[arg-type]
    if rank:
        order[first], order[second] = order[second], order[first]
    return order


def _may_replace(node: Node, root: Node) -> bool:
    before, after = root.meta["val"], node.meta["val"]
    same = (
        before.dtype == after.dtype and same_sizes(before.shape, after.shape) and dim_order(before) == dim_order(after)
    )
    return same and not (root.op == "placeholder" and any(user.op == "output" for user in node.users))
