"""Canonicalize symbolic sizes: compute each size by a single node, which reads a graph input where possible."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.dialect.edge_operators import SYMBOLIC
from edgecore.ir.graph import calls, edit, replace, view_sizes

aten = torch.ops.aten

_SIZE = aten.sym_size.int


def canonicalize_sym_sizes(program: ExportedProgram) -> ExportedProgram:
    """Merge equal symbolic sizes into one node, and let views infer a size (-1).

    The node reads the size from a graph input if possible. Otherwise the users of the size would depend on an
    intermediate value, and no delegate could contain both that value and these users. A view with one symbolic size has
    -1 for it, unless another of its sizes is 0.
    """
    with edit(program) as graph_module:
        placeholders = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
        inputs: dict[Any, tuple[Node, int]] = {}
        for node in placeholders:
            for dim, size in enumerate(getattr(node.meta.get("val"), "shape", ())):
                if not isinstance(size, int):
                    inputs.setdefault(size.node.expr, (node, dim))
        canonical: dict[Any, Node] = {}
        for node in calls(graph_module):
            if isinstance(node.meta.get("val"), torch.SymInt) and (node.target is _SIZE or node.target in SYMBOLIC):
                expression = node.meta["val"].node.expr
                if expression not in canonical:
                    canonical[expression] = _read_input(node, inputs.get(expression), placeholders[-1])
                if canonical[expression] is not node:
                    replace(node, canonical[expression])
            elif node.target is aten.view_copy.default:
                _infer_size(node)
    return program


def _read_input(node: Node, source: tuple[Node, int] | None, after: Node) -> Node:
    """Return a node that reads the same size as `node`, but from `source`, an input and one of the input's dims.

    Returns `node` if it already reads `source`, or if `source` is None.
    """
    if source is None or (node.target is _SIZE and node.args == source):
        return node
    with node.graph.inserting_after(after):
        size = node.graph.call_function(_SIZE, source)
    size.meta = dict(node.meta)
    return size


def _infer_size(view: Node) -> None:
    sizes = view.args[1]
    assert isinstance(sizes, (list, tuple))
    inferred = view_sizes(sizes)
    if inferred is not None:
        view.args = (view.args[0], inferred)
