"""Turn constants in branches and loop bodies into constants of the program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from edgecore.ir.control_flow import control_flow, graph_modules, is_control_flow, placeholders
from edgecore.ir.graph import calls, edit
from edgecore.ir.program.constants import Constants

Add = Callable[[str, torch.Tensor], Node]
"""A function of a name and a tensor that adds a placeholder with this content to a graph."""


def lift_body_constants(program: ExportedProgram) -> ExportedProgram:
    """Turn each tensor that a branch or loop body holds into a constant of the program, which the body captures.

    `torch.export` leaves `torch.tensor(2.0)` in a branch as an attribute of the branch's graph, for which torch's
    functionalization fails. The program is edited in place.
    """
    _, *bodies = graph_modules(program.graph_module)
    if any(True for body in bodies for _ in _tensors(body)):
        with edit(program) as graph_module:
            _lift_from_bodies(graph_module, Constants(program).add)
    return program


def _tensors(graph_module: GraphModule) -> Iterator[tuple[Node, torch.Tensor]]:
    for node in list(graph_module.graph.nodes):
        value = getattr(graph_module, str(node.target), None) if node.op == "get_attr" else None
        if isinstance(value, torch.Tensor):
            yield node, value


def _lift_from_bodies(graph_module: GraphModule, add: Add) -> None:
    for node in calls(graph_module):
        for body in control_flow(node).bodies if is_control_flow(node) else ():
            capture = partial(_capture, node, body, add)
            constants = list(_tensors(body))
            for constant, tensor in constants:
                constant.replace_all_uses_with(capture(constant.name, tensor))
                body.graph.erase_node(constant)
            for name in {str(constant.target) for constant, _ in constants}:
                delattr(body, name)  # delete the tensor, because torch would look for it in the state of the program
            _lift_from_bodies(body, capture)


def _capture(node: Node, body: GraphModule, add: Add, name: str, tensor: torch.Tensor) -> Node:
    """Let a control-flow node capture a constant. Return the constant's placeholder in `body`, one of its bodies."""
    operand = add(name, tensor)
    *others, captured = node.args
    assert isinstance(captured, (tuple, list))
    node.args = (*others, type(captured)((*captured, operand)))
    for each in control_flow(node).bodies:
        first = next(inner for inner in each.graph.nodes if inner.op != "placeholder")
        with each.graph.inserting_before(first):
            each.graph.placeholder(f"captured_{operand.name}").meta["val"] = operand.meta["val"]
    return placeholders(body)[-1]
