"""In-place operators become functional ones."""

from __future__ import annotations

from collections import defaultdict
from functools import cache, partial

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.graph import all_calls, edit, replace
from edgecore.ir.op_args import argument
from edgecore.ir.program import copy_program

aten = torch.ops.aten

_DROPOUTS = (aten.dropout.default, aten.feature_dropout.default, aten.alpha_dropout.default)

_WRAPPERS = (torch.ops.higher_order.wrap_with_set_grad_enabled, torch.ops.higher_order.wrap_with_autocast)
"""Regions under `torch.no_grad()` and `torch.autocast()`: torch inlines them."""

_MAY_RETURN_INPUT = {"contiguous", "to", "type_as"}
"""Composite operators that may hand back their input although their schema does not say so."""


def functionalize(program: ExportedProgram) -> ExportedProgram:
    """An equal program without in-place operators.

    Where the target of an in-place operator has no other live alias, the node gets the functional overload and later
    uses of the target read its result. A graph that writes through an alias, or into an input or a buffer, goes through
    torch's own functionalisation; so does one with in-place operators in branches or loop bodies.
    """
    _drop_dropouts(program)
    nodes = all_calls(program.graph_module)
    mutating = [node for node in nodes if is_mutable(node)]
    if any(node.target in _WRAPPERS for node in nodes) or any(node.graph is not program.graph for node in mutating):
        return copy_program(program.run_decompositions({}))
    if not mutating:
        return program
    if any(functional_form(node.target) is None for node in mutating) or _writes_through_alias(program):
        return copy_program(program.run_decompositions({}))
    with edit(program):
        for node in mutating:
            target = node.args[0]
            assert isinstance(target, Node)
            functional = functional_form(node.target)
            assert functional is not None
            node.target = functional
            target.replace_all_uses_with(node, delete_user_cb=partial(_comes_after, node))
    return program


def _drop_dropouts(program: ExportedProgram) -> None:
    """In eval mode a dropout hands back its input itself: torch's functionalisation would make it a copy."""
    with edit(program) as graph_module:
        for node in all_calls(graph_module, *_DROPOUTS):
            if not argument(node, "train"):
                source = node.args[0]
                assert isinstance(source, Node)
                replace(node, source)


def is_mutable(node: Node) -> bool:
    """Whether a node calls an operator that writes into an argument."""
    return isinstance(node.target, OpOverload) and node.target._schema.is_mutable


@cache
def functional_form(target: OpOverload) -> OpOverload | None:
    """`aten.relu.default` for `aten.relu_.default`; None unless only `self` is written and returned."""
    name = target._schema.name.partition("::")[2]
    written = [arg for arg in target._schema.arguments if arg.alias_info is not None and arg.alias_info.is_write]
    if not name.endswith("_") or name.startswith("__") or len(written) != 1 or written[0].name != "self":
        return None
    packet = getattr(getattr(torch.ops, target.namespace), name[:-1], None)
    overload = getattr(packet, target._overloadname, None) if packet is not None else None
    if overload is None or len(overload._schema.arguments) != len(target._schema.arguments):
        return None
    return overload if isinstance(overload, OpOverload) else None


def _writes_through_alias(program: ExportedProgram) -> bool:
    """Whether an in-place operator's target is an input, or shares memory with a value that is read afterwards."""
    graph = program.graph_module.graph
    position = {node: index for index, node in enumerate(graph.nodes)}
    root: dict[Node, Node] = {}
    members: dict[Node, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        base = aliased(node)
        root[node] = root[base] if base is not None else node
        members[root[node]].append(node)
    for node in graph.nodes:
        if node.op != "call_function" or not is_mutable(node):
            continue
        target = node.args[0]
        if root[target].op != "call_function":
            return True
        chain = _in_place_chain(target)
        for other in members[root[node]]:
            if other in chain or other is node or position[other] > position[node]:
                continue
            if any(position[user] > position[node] for user in other.users):
                return True
    return False


def _in_place_chain(node: Node) -> set[Node]:
    """`node` and what it is the in-place result of: names of one and the same tensor."""
    chain = {node}
    while isinstance(node, Node) and node.op == "call_function" and is_mutable(node):
        node = node.args[0]  # type: ignore[assignment]
        chain.add(node)
    return chain


def aliased(node: Node) -> Node | None:
    """The argument whose memory the value of `node` may share."""
    if node.op != "call_function" or not node.args or not isinstance(node.args[0], Node):
        return None
    if not isinstance(node.target, OpOverload):
        return node.args[0]
    schema = node.target._schema
    aliases = any(value.alias_info is not None for value in schema.returns)
    return node.args[0] if aliases or schema.name.partition("::")[2].rstrip("_") in _MAY_RETURN_INPUT else None


def _comes_after(node: Node, user: Node) -> bool:
    return user is not node and node < user
