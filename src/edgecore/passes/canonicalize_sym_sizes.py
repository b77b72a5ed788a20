"""Symbolic sizes are read from the inputs, each once, and views infer the one that they can."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.dialect import SYMBOLIC
from edgecore.ir.graph import calls, edit, replace

aten = torch.ops.aten

_SIZE = aten.sym_size.int


def canonicalize_sym_sizes(program: ExportedProgram) -> ExportedProgram:
    """Equal sizes become one node, of a graph input where it has that size; a view with one symbolic size gets -1.

    A size of an inner value would otherwise tie what reads it to that value, and keep both out of one delegate.
    """
    with edit(program) as graph_module:
        given = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
        inputs: dict[Any, tuple[Node, int]] = {}
        for node in given:
            for dim, size in enumerate(getattr(node.meta.get("val"), "shape", ())):
                if not isinstance(size, int):
                    inputs.setdefault(size.node.expr, (node, dim))
        known: dict[Any, Node] = {}
        for node in calls(graph_module):
            if isinstance(node.meta.get("val"), torch.SymInt) and (node.target is _SIZE or node.target in SYMBOLIC):
                expression = node.meta["val"].node.expr
                if expression not in known:
                    known[expression] = _of_input(node, inputs.get(expression), given[-1])
                if known[expression] is not node:
                    replace(node, known[expression])
            elif node.target is aten.view_copy.default:
                _infer_size(node)
    return program


def _of_input(node: Node, place: tuple[Node, int] | None, after: Node) -> Node:
    """The size that `node` computes, read at `place`; `node` itself if there is none or it does so."""
    if place is None or (node.target is _SIZE and node.args == place):
        return node
    with node.graph.inserting_after(after):
        size = node.graph.call_function(_SIZE, place)
    size.meta = dict(node.meta)
    return size


def _infer_size(view: Node) -> None:
    sizes = view.args[1]
    assert isinstance(sizes, (list, tuple))
    if sum(isinstance(size, Node) for size in sizes) == 1 and -1 not in sizes:
        view.args = (view.args[0], [-1 if isinstance(size, Node) else size for size in sizes])
