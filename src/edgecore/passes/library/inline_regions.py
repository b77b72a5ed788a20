"""Inline regions under `no_grad()` and under `autocast(enabled=False)`, which have no effect on a device."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from edgecore.ir.control_flow import graph_modules
from edgecore.ir.graph import REGIONS, calls, edit

_GRAD, _AUTOCAST = REGIONS


def inline_regions(program: ExportedProgram) -> ExportedProgram:
    """Replace each region under `no_grad()` or `autocast(enabled=False)` by the nodes of its graph, in place.

    Regions under an enabled `autocast` stay, and `functionalize` leaves programs with such regions to torch.
    """
    parts = list(graph_modules(program.graph_module))
    if any(calls(part, *REGIONS) for part in parts):
        with edit(program):
            for part in parts:
                _inline_calls(part)
    return program


def _inline_calls(graph_module: GraphModule) -> None:
    for node in calls(graph_module, *REGIONS):
        # Position of the body in the arguments (enabled, body, ...) or (device, dtype, enabled, cache, body, ...).
        first = 1 if node.target is _GRAD else 4
        if node.target is _AUTOCAST and node.args[2]:
            continue
        body = getattr(graph_module, node.args[first].target)  # type: ignore[union-attr,arg-type]
        _inline_calls(body)
        _inline(graph_module, node, body, list(node.args[first + 1 :]))


def _inline(graph_module: GraphModule, node: Node, body: GraphModule, operands: list[Any]) -> None:
    """Copy the nodes of a region's body to a position before its call `node`; let the call's users read the results."""
    copies: dict[Node, Any] = {}
    inputs = iter(operands)
    results: Any = ()
    for inner in body.graph.nodes:
        if inner.op == "placeholder":
            copies[inner] = next(inputs)
        elif inner.op == "output":
            results = torch.fx.map_arg(inner.args[0], copies.__getitem__)
        else:
            with graph_module.graph.inserting_before(node):
                copy = graph_module.graph.node_copy(inner, copies.__getitem__)
            copy.meta = dict(inner.meta)
            if inner.op == "get_attr":  # copy the body of an inner region that is not inlined
                copy.target = _add_module(graph_module, getattr(body, str(inner.target)))
            copies[inner] = copy
    for user in list(node.users):
        assert user.target is operator.getitem
        result = results[user.args[1]]
        user.replace_all_uses_with(result)
        graph_module.graph.erase_node(user)
    graph_module.graph.erase_node(node)


def _add_module(graph_module: GraphModule, module: torch.nn.Module) -> str:
    """Add a submodule under a new name and return the name."""
    number = len(dict(graph_module.named_children()))
    while hasattr(graph_module, f"inlined_{number}"):
        number += 1
    graph_module.add_module(f"inlined_{number}", module)
    return f"inlined_{number}"
