"""Values that must not cross the border of a partition.

A backend may represent some values in a form that exists only inside of it: XNNPACK stores booleans as float32 numbers,
an integer NPU stores the numbers between a dequantize and a quantize node as integers. So the node that computes such a
value and all nodes that read it must be in the same partition.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial

from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.program.constants import Constants
from edgecore.ir.torch_compat import OpOverload
from edgecore.partition.protocol import TAG, UnsupportedReason

InsideOnly = Callable[[Node], "str | None"]
"""A function that names the kind of a node's value, such as "booleans", if the backend can neither take nor return the
value; otherwise it returns None."""


def keep_inside(supported: UnsupportedReason, program: ExportedProgram, inside_only: InsideOnly) -> UnsupportedReason:
    """Refuse what `supported` refuses, and nodes whose value must stay in a delegate but has an unsupported reader."""
    constants = Constants(program)
    reasons = {node: supported(node) for node in program.graph.nodes if isinstance(node.target, OpOverload)}
    inside = [
        node
        for node, reason in reasons.items()
        if reason is None and (any(map(inside_only, _results(node))) or _inputs(node, constants, inside_only))
    ]

    def is_supported(node: Node) -> bool:
        return reasons.get(_producer(node), "") is None

    while True:
        excluded = {node: _crossing(node, constants, inside_only, is_supported) for node in inside}
        if not any(excluded.values()):
            return lambda node: reasons[node]
        reasons.update(excluded)
        inside = [node for node in inside if excluded[node] is None]


def crossings(program: ExportedProgram, inside_only: InsideOnly) -> dict[Node, str]:
    """Find values that must stay inside a delegate but are computed or read outside of it.

    Returns:
        Node in a partition that computes or reads such a value -> reason.
    """
    constants, reasons = Constants(program), dict[Node, str]()
    for node in program.graph.nodes:
        if TAG in node.meta:
            reason = _crossing(node, constants, inside_only, partial(_has_tag, node.meta[TAG]))
            if reason:
                reasons[node] = reason
    return reasons


def _has_tag(tag: str, node: Node) -> bool:
    return node.meta.get(TAG) == tag


def _inputs(node: Node, constants: Constants, inside_only: InsideOnly) -> list[Node]:
    """List the inputs of a node that must not cross the border of a partition. Constants may, so they are left out."""
    return [source for source in node.all_input_nodes if inside_only(source) and not constants.has(source)]


def _crossing(
    node: Node, constants: Constants, inside_only: InsideOnly, is_inside: Callable[[Node], bool]
) -> str | None:
    """Describe how a value of `node` that must stay inside a delegate crosses its border; None if no value does."""
    for source in _inputs(node, constants, inside_only):
        if not is_inside(source):
            return f"reads {inside_only(source)} that are computed outside the delegate"
    for value in _results(node):
        readers = [user for user in value.users if user.target is not operator.getitem]
        if inside_only(value) and not all(map(is_inside, readers)):
            return f"its {inside_only(value)} are read outside the delegate"
    return None


def _producer(node: Node) -> Node:
    """Return the call that computes `node`: for a `getitem`, this is the operator with several results."""
    return node.args[0] if node.target is operator.getitem else node  # type: ignore[return-value]


def _results(node: Node) -> list[Node]:
    """Return a node, and the `getitem` nodes of its results if it has several."""
    return [node, *(user for user in node.users if user.target is operator.getitem)]
