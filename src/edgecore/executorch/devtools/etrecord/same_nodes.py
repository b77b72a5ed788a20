"""Nodes that two programs have in common, such as an exported program and the edge program that it became."""

from __future__ import annotations

from typing import Any

from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node
from torch.fx.node import map_arg

from edgecore.ir.torch_compat import OpOverload, schema_of


def same_nodes(program: ExportedProgram | None, origin: ExportedProgram | None) -> dict[str, str]:
    """Map nodes of `program` to nodes of `origin` that compute the same, with equal operators and equal arguments.

    Each node of `origin` occurs at most once. The map lacks nodes that a pass has changed, and nodes that depend on a
    changed node. It is empty if `origin` writes to tensors, since then equal nodes may read different values.
    """
    if program is None or origin is None or any(_writes(node) for node in origin.graph.nodes):
        return {}
    known: dict[Any, int] = {}
    free: dict[int, list[str]] = {}
    for node, number in _numbers(origin, known).items():
        free.setdefault(number, []).append(node.name)
    same = {}
    for node, number in _numbers(program, known).items():
        if node.op == "call_function" and free.get(number):
            same[node.name] = free[number].pop(0)
    return same


def _writes(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and schema_of(node.target).is_mutable


def _numbers(program: ExportedProgram, known: dict[Any, int]) -> dict[Node, int]:
    """Number nodes so that nodes of equal value have equal numbers, even across programs if they share `known`."""
    numbers: dict[Node, int] = {}
    specs = iter(program.graph_signature.input_specs)
    for node in program.graph.nodes:
        key: Any = node
        if node.op == "placeholder":
            spec = next(specs)
            tensor = program.state_dict.get(spec.target or "", program.constants.get(spec.target or ""))
            if spec.kind == InputKind.USER_INPUT:
                key = spec.arg.name
            elif tensor is not None:
                key = id(tensor)  # both programs hold the same tensor objects as weights
        elif node.op == "call_function":
            arguments = map_arg((node.args, node.kwargs), lambda argument: ("node", numbers[argument]))
            key = (node.target, repr(arguments))
        numbers[node] = known.setdefault(key, len(known))
    return numbers
