"""Keep booleans inside delegates.

XNNPACK has no boolean type: inside a delegate a boolean is a float32 number, 0 or 1. Outside it is a byte. So the node
that computes a boolean tensor and all nodes that read this tensor must be in the same delegate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.sdk import TAG, Constants, UnsupportedReason

READ_OUTSIDE = "its booleans are read outside the delegate"
COMPUTED_OUTSIDE = "reads booleans that are computed outside the delegate"


def keep_booleans_inside(supported: UnsupportedReason, program: ExportedProgram) -> UnsupportedReason:
    """Return the check `supported`, extended to refuse nodes that exchange booleans with unsupported nodes.

    Refusing a node can make its neighbours unsupported too, so the check is repeated until no more nodes are refused.
    """
    constants = Constants(program)
    reasons = {node: supported(node) for node in program.graph.nodes if isinstance(node.target, torch._ops.OpOverload)}
    inside = [node for node in _with_booleans(reasons, constants) if reasons[node] is None]
    while True:
        excluded = {node: _crossing(node, constants, lambda other: reasons.get(other, "") is None) for node in inside}
        if not any(excluded.values()):
            return lambda node: reasons[node]
        reasons.update(excluded)
        inside = [node for node in inside if excluded[node] is None]


def boolean_crossings(program: ExportedProgram) -> dict[Node, str]:
    """Find the nodes in partitions that exchange a boolean with a node outside their partition.

    Returns a map from each such node to a sentence that describes the error.
    """
    constants, crossings = Constants(program), dict[Node, str]()
    for node in program.graph.nodes:
        if TAG in node.meta:
            reason = _crossing(node, constants, partial(_has_tag, node.meta[TAG]))
            if reason:
                crossings[node] = reason
    return crossings


def _has_tag(tag: str, node: Node) -> bool:
    return node.meta.get(TAG) == tag


def _is_boolean(node: Node) -> bool:
    val = node.meta.get("val")
    return isinstance(val, torch.Tensor) and val.dtype == torch.bool


def _boolean_inputs(node: Node, constants: Constants) -> list[Node]:
    """List the boolean inputs of a node that are not constant."""
    return [source for source in node.all_input_nodes if _is_boolean(source) and not constants.has(source)]


def _with_booleans(nodes: Iterable[Node], constants: Constants) -> list[Node]:
    return [node for node in nodes if _is_boolean(node) or _boolean_inputs(node, constants)]


def _crossing(node: Node, constants: Constants, is_inside: Callable[[Node], bool]) -> str | None:
    """Return a sentence on how a boolean of `node` crosses the border of the delegate; None if none does."""
    if not all(map(is_inside, _boolean_inputs(node, constants))):
        return COMPUTED_OUTSIDE
    return READ_OUTSIDE if _is_boolean(node) and not all(map(is_inside, node.users)) else None
