"""Truth values stay inside: XNNPACK has no type for them, so what computes them and what reads them share a delegate."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.constants import Constants
from edgecore.partition.types import TAG

Check = Callable[[Node], "str | None"]

READ_OUTSIDE = "truth values that are read outside"
COMPUTED_OUTSIDE = "reads truth values that are computed outside"


def kept_inside(check: Check, program: ExportedProgram) -> Check:
    """`check`, and no for a node whose truth values something reads, or computes, that is refused."""
    constants = Constants(program)
    reasons = {node: check(node) for node in program.graph.nodes if isinstance(node.target, torch._ops.OpOverload)}
    taken = [node for node in _with_booleans(reasons, constants) if reasons[node] is None]
    while True:
        misfits = {node: _misfit(node, constants, lambda other: reasons.get(other, "") is None) for node in taken}
        if not any(misfits.values()):
            return lambda node: reasons[node]
        reasons.update(misfits)
        taken = [node for node in taken if misfits[node] is None]


def crossing(program: ExportedProgram) -> dict[Node, str]:
    """Tagged nodes whose truth values something with another tag reads or computes, and why they cannot be taken."""
    constants, found = Constants(program), dict[Node, str]()
    for node in program.graph.nodes:
        if TAG in node.meta:
            reason = _misfit(node, constants, partial(_has_tag, node.meta[TAG]))
            if reason:
                found[node] = reason
    return found


def _has_tag(tag: str, node: Node) -> bool:
    return node.meta.get(TAG) == tag


def _is_boolean(node: Node) -> bool:
    val = node.meta.get("val")
    return isinstance(val, torch.Tensor) and val.dtype == torch.bool


def _computed(node: Node, constants: Constants) -> list[Node]:
    """The truth values that a node reads, but for constants."""
    return [source for source in node.all_input_nodes if _is_boolean(source) and not constants.has(source)]


def _with_booleans(nodes: Iterable[Node], constants: Constants) -> list[Node]:
    return [node for node in nodes if _is_boolean(node) or _computed(node, constants)]


def _misfit(node: Node, constants: Constants, is_inside: Callable[[Node], bool]) -> str | None:
    if not all(map(is_inside, _computed(node, constants))):
        return COMPUTED_OUTSIDE
    return READ_OUTSIDE if _is_boolean(node) and not all(map(is_inside, node.users)) else None
