"""Replace in-place operators by functional ones."""

from __future__ import annotations

from collections import defaultdict
from functools import cache, partial

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.graph import REGIONS, all_calls, compute_val, edit, fake_mode, replace
from edgecore.ir.op_args import argument
from edgecore.ir.program import copy_program

aten = torch.ops.aten

_DROPOUTS = (aten.dropout.default, aten.feature_dropout.default, aten.alpha_dropout.default)

_MAY_RETURN_INPUT = {"contiguous", "to", "type_as"}
"""Composite operators that may return their input itself, although their schema does not say so."""


def functionalize(program: ExportedProgram) -> ExportedProgram:
    """Return an equivalent program without in-place operators. `program` may be edited.

    If no later node reads an alias of the tensor that an in-place operator writes, the node gets the functional
    overload, and later users of the tensor read the result. torch's own functionalization, which traces the program
    again, handles all other programs: those that write through an alias, into an input or a buffer, or inside a branch
    or loop body, those that convert a result to the dtype of the tensor, and those with regions under
    `torch.no_grad()` or `torch.autocast()`.
    """
    _drop_dropouts(program)
    nodes = all_calls(program.graph_module)
    mutating = [node for node in nodes if is_mutable(node)]
    if any(node.target in REGIONS for node in nodes) or any(node.graph is not program.graph for node in mutating):
        return copy_program(program.run_decompositions({}))
    if not mutating:
        return program
    if any(functional_form(node.target) is None for node in mutating):
        return copy_program(program.run_decompositions({}))
    mode = fake_mode(program.graph_module)
    if any(_converts(node, mode) for node in mutating) or _writes_through_alias(program):
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
    """Remove dropouts in eval mode: they return their input itself.

    torch's functionalization would turn them into copies.
    """
    with edit(program) as graph_module:
        for node in all_calls(graph_module, *_DROPOUTS):
            if not argument(node, "train"):
                source = node.args[0]
                assert isinstance(source, Node)
                replace(node, source)


def is_mutable(node: Node) -> bool:
    """Return True if a node calls an operator that writes into an argument."""
    return isinstance(node.target, OpOverload) and node.target._schema.is_mutable


@cache
def functional_form(target: OpOverload) -> OpOverload | None:
    """Return the functional overload of an in-place operator: `aten.relu.default` for `aten.relu_.default`.

    Returns None if there is none, or if the operator writes or returns anything else than `self`.
    """
    name = target._schema.name.partition("::")[2]
    written = [arg for arg in target._schema.arguments if arg.alias_info is not None and arg.alias_info.is_write]
    if not name.endswith("_") or name.startswith("__") or len(written) != 1 or written[0].name != "self":
        return None
    packet = getattr(getattr(torch.ops, target.namespace), name[:-1], None)
    overload = getattr(packet, target._overloadname, None) if packet is not None else None
    if overload is None or len(overload._schema.arguments) != len(target._schema.arguments):
        return None
    return overload if isinstance(overload, OpOverload) else None


def _converts(node: Node, mode: FakeTensorMode) -> bool:
    """Return True if an in-place call converts its result to the dtype of the tensor that it writes.

    An example is `x.gt_(0)` for a float tensor `x`: the functional overload `gt` returns booleans.
    """
    functional = functional_form(node.target)
    assert functional is not None
    return bool(compute_val(mode, functional, node.args, node.kwargs).dtype != node.meta["val"].dtype)


def _writes_through_alias(program: ExportedProgram) -> bool:
    """Return True if an in-place operator writes a program input, or a tensor with a live alias.

    A live alias is another node that may share the tensor's memory and has a user after the in-place operator. That
    user must see the written values, but the functional overload writes them to a new tensor.
    """
    graph = program.graph_module.graph
    position = {node: index for index, node in enumerate(graph.nodes)}
    base_of: dict[Node, Node] = {}
    aliases: dict[Node, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        source = aliased(node)
        base_of[node] = base_of[source] if source is not None else node
        aliases[base_of[node]].append(node)
    for node in graph.nodes:
        if node.op != "call_function" or not is_mutable(node):
            continue
        target = node.args[0]
        if base_of[target].op != "call_function":
            return True
        chain = _in_place_chain(target)
        for other in aliases[base_of[node]]:
            if other in chain or other is node or position[other] > position[node]:
                continue
            if any(position[user] > position[node] for user in other.users):
                return True
    return False


def _in_place_chain(node: Node) -> set[Node]:
    """Return the nodes of a chain of in-place calls that write one tensor, from `node` back to the tensor's producer.

    An in-place call returns the argument that it writes, so all these nodes have the same tensor as their value.
    """
    chain = {node}
    while isinstance(node, Node) and node.op == "call_function" and is_mutable(node):
        node = node.args[0]  # type: ignore[assignment]
        chain.add(node)
    return chain


def aliased(node: Node) -> Node | None:
    """Return the argument whose memory the value of `node` may share, or None."""
    if node.op != "call_function" or not node.args or not isinstance(node.args[0], Node):
        return None
    if not isinstance(node.target, OpOverload):
        return node.args[0]
    schema = node.target._schema
    aliases = any(value.alias_info is not None for value in schema.returns)
    return node.args[0] if aliases or schema.name.partition("::")[2].rstrip("_") in _MAY_RETURN_INPUT else None


def _comes_after(node: Node, user: Node) -> bool:
    return user is not node and node < user
