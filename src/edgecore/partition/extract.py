"""Copy a partition into a separate program, and replace it by a call of its delegate."""

from __future__ import annotations

import operator
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

import torch
from torch.export import ExportedProgram, ExportGraphSignature
from torch.export.graph_signature import InputKind, InputSpec, OutputKind, OutputSpec, TensorArgument
from torch.fx import Graph, Node

from edgecore.ir.delegate import DelegatedCall, LoweredBackendModule, call_delegate
from edgecore.ir.graph import dtypes_of, edit, module_path, operator_name, source_line
from edgecore.ir.program.constants import Constants
from edgecore.ir.program.copying import make_program
from edgecore.ir.program.mutable_state import MutableBuffer, freeze, mutable_buffers
from edgecore.partition.fallback import operator_calls


@dataclass
class Extracted:
    """A partition as a program, with the nodes of the original graph that are its inputs and outputs.

    `buffers` are the mutable buffers that the partition uses and whose state the backend keeps.
    """

    program: ExportedProgram
    inputs: list[Node]
    outputs: list[Node]
    buffers: list[MutableBuffer]


def extract(
    program: ExportedProgram,
    nodes: list[Node],
    claimed: Collection[str],
    *,
    constants_as_inputs: bool | frozenset[str] = False,
) -> Extracted:
    """Copy nodes into a separate program, in which the constants that they read become buffers or inputs.

    `constants_as_inputs` makes all constants inputs (True), or only those whose placeholder names it contains. A
    mutable buffer of `claimed` that the nodes use becomes a buffer of the new program, and its new content an output of
    the kind `BUFFER_MUTATION`. If the nodes only read the buffer, this output is the buffer itself.
    """
    constants = Constants(program)
    inside = set(nodes)
    sources = dict.fromkeys(source for node in nodes for source in node.all_input_nodes if source not in inside)
    buffers = [
        buffer
        for buffer in mutable_buffers(program)
        if buffer.name in claimed and (buffer.node in sources or buffer.update in inside)
    ]
    held = {buffer.node for buffer in buffers}
    read = [source for source in sources if constants.has(source)]
    stay = constants_as_inputs if isinstance(constants_as_inputs, frozenset) else frozenset[str]()
    weights = [] if constants_as_inputs is True else [source for source in read if source.name not in stay]
    others = held.union(weights)
    inputs = [source for source in sources if source not in others]
    outputs = _outputs(program, inside, nodes, {buffer.name for buffer in buffers})

    graph, copies = Graph(), {}
    input_specs: list[InputSpec] = []
    state_dict: dict[str, torch.Tensor] = {}
    stored = {source: (constants.specs[source.name].target, constants.get(source)) for source in weights}
    stored |= {buffer.node: (buffer.name, buffer.initial.detach()) for buffer in buffers}
    for source in [*stored, *inputs]:
        copies[source] = placeholder = graph.placeholder(source.name)
        placeholder.meta = dict(source.meta)
        argument = TensorArgument(placeholder.name)
        if source in stored:
            target, tensor = stored[source]
            state_dict[target] = tensor  # type: ignore[index]
            input_specs.append(InputSpec(InputKind.BUFFER, argument, target, persistent=True))
        else:
            input_specs.append(InputSpec(InputKind.USER_INPUT, argument, None))
    for node in nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
        copies[node].meta = dict(node.meta)
    updates = [(buffer.update if buffer.update in inside else buffer.node, buffer.name) for buffer in buffers]
    results = [*updates, *((node, None) for node in outputs)]
    graph.output(tuple(copies[node] for node, _ in results))
    graph.output_node().meta["val"] = tuple(node.meta["val"] for node, _ in results)
    output_specs = [
        OutputSpec(
            OutputKind.BUFFER_MUTATION if name else OutputKind.USER_OUTPUT, TensorArgument(copies[node].name), name
        )
        for node, name in results
    ]
    signature = ExportGraphSignature(input_specs=input_specs, output_specs=output_specs)
    extracted = make_program(graph, signature, like=program, state_dict=state_dict, constants={})
    return Extracted(extracted, inputs, outputs, buffers)


def _outputs(program: ExportedProgram, inside: set[Node], nodes: list[Node], held: Collection[str]) -> list[Node]:
    """List the nodes of a partition that are read outside or returned, except updates of the buffers in `held`."""
    results = {
        value
        for value, spec in zip(program.graph.output_node().args[0], program.graph_signature.output_specs, strict=True)
        if spec.kind != OutputKind.BUFFER_MUTATION or spec.target not in held
    }
    return [
        node
        for node in nodes
        if node in results or any(user not in inside and user.op != "output" for user in node.users)
    ]


def replace_by_call(
    program: ExportedProgram, nodes: list[Node], partition: Extracted, module: LoweredBackendModule
) -> None:
    """Replace the nodes of a partition by a call of its delegate.

    Buffers whose state the backend keeps stay in the program until `remove_buffers`, but the program no longer writes
    them.
    """
    inside = set(nodes)
    with edit(program) as graph_module:
        freeze(program, {buffer.name for buffer in partition.buffers})
        index = sum(1 for node in graph_module.graph.nodes if node.target is call_delegate)
        name = f"lowered_module_{index}"
        graph_module.add_module(name, module)
        # Insert the delegate call before the last node, which all its inputs precede. Users of its outputs may precede
        # the last node, too: `_restore_order` moves them.
        with graph_module.graph.inserting_before(nodes[-1]):
            attribute = graph_module.graph.get_attr(name)
            call = graph_module.graph.call_function(call_delegate, (attribute, *partition.inputs))
            attribute.meta["val"] = None
            call.meta["val"] = (*(node.meta["val"] for node in partition.outputs), *module.result.unread_results)
            call.meta["debug_handle"] = [node.meta["debug_handle"] for node in nodes if "debug_handle" in node.meta]
            call.meta["delegated"] = [
                DelegatedCall(operator_name(n.target), n.name, module_path(n), source_line(n), dtypes_of(n))
                for n in operator_calls(nodes)
            ]
            for position, node in enumerate(partition.outputs):
                item = graph_module.graph.call_function(operator.getitem, (call, position))
                item.meta = {"val": node.meta["val"]}
                node.replace_all_uses_with(item, delete_user_cb=partial(_is_outside, inside))
        for node in reversed(nodes):
            graph_module.graph.erase_node(node)
        _restore_order(graph_module.graph)


def _is_outside(inside: set[Node], user: Node) -> bool:
    return user not in inside


def _restore_order(graph: Graph) -> None:
    """Sort the graph topologically, and change the present order as little as possible.

    The delegate call takes the place of the partition's last node, so users of its outputs may stand before the call.
    """
    placed: set[Node] = set()
    waiting: dict[Node, list[Node]] = {}
    nodes = list(graph.nodes)
    order: list[Node] = []
    for start in nodes:
        ready = [start]
        while ready:
            node = ready.pop()
            missing = next((source for source in node.all_input_nodes if source not in placed), None)
            if missing is not None:
                waiting.setdefault(missing, []).append(node)
                continue
            placed.add(node)
            order.append(node)
            ready.extend(reversed(waiting.pop(node, [])))
    assert len(order) == len(nodes), "the graph has a cycle"
    if order != nodes:
        anchor = order[0]
        first = next(iter(graph.nodes))
        if first is not anchor:
            first.prepend(anchor)
        for node in order[1:]:
            anchor.append(node)
            anchor = node
