"""Merge chains of reshapes, and chains of permutations."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from edgecore.ir.control_flow import graph_modules
from edgecore.ir.dialect.dim_orders import dim_order
from edgecore.ir.dialect.op_sets import PERMUTATIONS, RESHAPES
from edgecore.ir.graph import Editor, calls, edit, fake_mode, replace, same_sizes, view_sizes

aten = torch.ops.aten


def merge_views(program: ExportedProgram) -> ExportedProgram:
    """Let the last reshape, or the last permutation, of a chain read the input of the chain.

    A chain whose result equals its input is removed, and so is a concatenation of a single tensor. In a chain from an
    input of the program to an output, however, one node stays and copies, because outputs may not alias inputs.
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
    start = _source(source) if source.target in RESHAPES else source
    while start.op == "call_function" and start.target in RESHAPES:
        start = _source(start)
    if _may_replace(node, start):
        replace(node, start)
    elif start is not source:
        sizes = view_sizes(node.meta["val"].shape)
        if node.target is aten.view_copy.default:
            node.replace_input_with(source, start)
        elif sizes is not None:
            editor = Editor(graph_module, node, mode)
            replace(node, editor.call(aten.view_copy.default, start, sizes, val=node.meta["val"]))


def _merge_permutations(graph_module: GraphModule, node: Node, mode: Any) -> None:
    order, start = order_of(node), _source(node)
    while start.op == "call_function" and start.target in PERMUTATIONS:
        inner = order_of(start)
        order, start = [inner[dim] for dim in order], _source(start)
    if order == sorted(order) and _may_replace(node, start):
        replace(node, start)
    elif start is not _source(node):
        editor = Editor(graph_module, node, mode)
        replace(node, editor.call(aten.permute_copy.default, start, order, val=node.meta["val"]))


def _source(node: Node) -> Node:
    source = node.args[0]
    assert isinstance(source, Node)
    return source


def order_of(node: Node) -> list[int]:
    """Return the permutation of `node`: dim i of its result is dim `order[i]` of its input."""
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


def _may_replace(node: Node, start: Node) -> bool:
    before, after = start.meta["val"], node.meta["val"]
    same = (
        before.dtype == after.dtype and same_sizes(before.shape, after.shape) and dim_order(before) == dim_order(after)
    )
    return same and not (start.op == "placeholder" and any(user.op == "output" for user in node.users))
