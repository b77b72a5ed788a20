"""Delegation: replace each partition (the nodes with the same tag) by one node that calls a compiled delegate."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.export import ExportedProgram, ExportGraphSignature
from torch.export.graph_signature import InputKind, InputSpec, OutputKind, OutputSpec, TensorArgument
from torch.fx import Graph, Node

from edgecore.errors import BackendError, CompileError
from edgecore.ir.constants import Constants
from edgecore.ir.delegate import DelegatedCall, LoweredBackendModule, call_delegate, is_delegate_call
from edgecore.ir.graph import calls, describe, dtypes_of, edit, module_path, operator_name, source_line
from edgecore.ir.program import make_program
from edgecore.partition.fallback import PartitionDiagnostics, counted, operator_calls
from edgecore.partition.protocol import TAG, DelegationSpec, Partitioner, PartitionResult, UnsupportedNode
from edgecore.plugin import CompileSpec, PreprocessResult

Preprocess = Callable[[str, ExportedProgram, Sequence[CompileSpec]], tuple[PreprocessResult, tuple[str, str]]]
"""A function (backend id, partition, compile specs) -> (result, (package, version)).

It compiles the partition with the backend, and returns the result and the package that made it.
"""


def to_backend(
    program: ExportedProgram,
    partitioner: Partitioner,
    preprocess: Preprocess,
    diagnostics: PartitionDiagnostics,
    required: bool = False,
) -> ExportedProgram:
    """Delegate the nodes that a partitioner tags.

    If the partitioner, its check of a node, or `preprocess` raises an exception, the nodes concerned stay as they are,
    and a `FallbackWarning` names the backend, the operator and its source line.

    Args:
        program: The program; it is edited in place.
        partitioner: The partitioner.
        preprocess: Compiles a partition.
        diagnostics: Gets the reasons why nodes are not delegated.
        required: Raise a `CompileError` in place of the warning.

    Returns:
        `program`.

    Raises:
        CompileError: The partitioner changed the program, used a tag that it does not define, or made a partition that
            is not convex.
    """
    result = _partition(program, partitioner, diagnostics, required)
    partitions: dict[str, list[Node]] = {}
    for node in program.graph.nodes:
        tag = node.meta.pop(TAG, None)
        if tag is None or node.op != "call_function" or result is None:
            continue
        if tag not in result.partition_tags:
            raise CompileError(
                f"{type(partitioner).__name__} tagged {describe(node)} {tag!r}, which it does not define"
            )
        partitions.setdefault(tag, []).append(node)
    if result is None:
        return program
    backend_ids = {spec.backend_id for spec in result.partition_tags.values()}
    name = ", ".join(sorted(backend_ids)) or type(partitioner).__name__
    _note_unsupported_nodes(program, result.unsupported_nodes, name, diagnostics, required)
    for tag, nodes in partitions.items():
        _check_convex(tag, nodes)
        _delegate(program, nodes, result.partition_tags[tag], preprocess, diagnostics, required)
    if partitions:
        Constants(program).drop_unused()
    return program


def _partition(
    program: ExportedProgram, partitioner: Partitioner, diagnostics: PartitionDiagnostics, required: bool
) -> PartitionResult | None:
    """Call the partitioner. Returns None, after a warning, if it raised an exception."""
    before = _fingerprint(program)
    result, failure = None, None
    try:
        returned = partitioner.partition(program)
        if not isinstance(returned, PartitionResult):
            raise TypeError(f"partition gave a {type(returned).__name__}, not a PartitionResult")
        result = returned
    except Exception as error:
        failure = error
    is_same = result is None or result.tagged_exported_program is program
    if not is_same or _fingerprint(program) != before:
        raise CompileError(
            f"{type(partitioner).__name__} changed the program; a partitioner may only tag nodes"
        ) from failure
    if failure is not None:
        nodes = [node for node in calls(program.graph_module) if not is_delegate_call(node)]
        diagnostics.fall_back(type(partitioner).__name__, "to choose operators", nodes, failure, required)
    return result


def _note_unsupported_nodes(
    program: ExportedProgram,
    unsupported_nodes: Sequence[UnsupportedNode],
    backend: str,
    diagnostics: PartitionDiagnostics,
    required: bool,
) -> None:
    """Add the reasons why nodes are not delegated to `diagnostics`.

    Checks that failed with the same exception on calls of the same operator count as one failure.
    """
    by_name = {node.name: node for node in program.graph.nodes}
    failed: dict[tuple[Any, str], list[tuple[Node, Exception]]] = {}
    for unsupported in unsupported_nodes:
        node = by_name.get(unsupported.node)
        if unsupported.error is None or node is None:
            diagnostics.add(unsupported.node, backend, unsupported.reason)
        else:
            failed.setdefault((node.target, str(unsupported.error)), []).append((node, unsupported.error))
    for failures in failed.values():
        nodes = [node for node, _ in failures]
        diagnostics.fall_back(backend, f"to examine {counted(nodes)}", nodes, failures[0][1], required)


def _fingerprint(program: ExportedProgram) -> list[tuple[str, str, str, str]]:
    return [(node.name, node.op, str(node.target), f"{node.args}{node.kwargs}") for node in program.graph.nodes]


def _check_convex(tag: str, nodes: list[Node]) -> None:
    """Raise `CompileError` if a path leaves the partition and comes back."""
    inside = set(nodes)
    downstream: set[Node] = set()  # nodes outside that depend on the partition
    last = nodes[-1]
    node = nodes[0]
    while node is not last:
        node = node.next
        sources = node.all_input_nodes
        if node not in inside and any(source in inside or source in downstream for source in sources):
            downstream.add(node)
        elif node in inside and any(source in downstream for source in sources):
            raise CompileError(f"partition {tag} is not convex: a path leaves it and comes back at {describe(node)}")


def _delegate(
    program: ExportedProgram,
    nodes: list[Node],
    spec: DelegationSpec,
    preprocess: Preprocess,
    diagnostics: PartitionDiagnostics,
    required: bool,
) -> None:
    partition = _extract(program, nodes)
    try:
        result, distribution = preprocess(spec.backend_id, partition.program, spec.compile_specs)
        if not isinstance(result, PreprocessResult):
            raise TypeError(f"preprocess gave a {type(result).__name__}, not a PreprocessResult")
    except BackendError:
        raise  # the backend is not installed or is broken: this is no failure of the partition
    except Exception as error:
        task = f"to compile a partition of {counted(nodes)}"
        diagnostics.fall_back(spec.backend_id, task, nodes, error, required)
        return
    module = LoweredBackendModule(spec.backend_id, result, spec.compile_specs, partition.program, distribution)
    inside = set(nodes)
    with edit(program) as graph_module:
        index = sum(1 for node in graph_module.graph.nodes if node.target is call_delegate)
        name = f"lowered_module_{index}"
        graph_module.add_module(name, module)
        # All inputs are in front of the last node. Users of the outputs may be too: `_restore_order` moves them.
        with graph_module.graph.inserting_before(nodes[-1]):
            attribute = graph_module.graph.get_attr(name)
            call = graph_module.graph.call_function(call_delegate, (attribute, *partition.inputs))
            attribute.meta["val"] = None
            call.meta["val"] = (*(node.meta["val"] for node in partition.outputs), *result.unread_results)
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
    """Sort the graph in topological order, keeping the present order where possible.

    A user of a delegate's output may be in front of the delegate call, which replaces the last node of the partition.
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
        graph._root.append(anchor)
        for node in order[1:]:
            anchor.append(node)
            anchor = node


@dataclass
class _Partition:
    """The nodes of a partition as a program, and the nodes of the original graph that are its inputs and outputs."""

    program: ExportedProgram
    inputs: list[Node]
    outputs: list[Node]


def _extract(program: ExportedProgram, nodes: list[Node]) -> _Partition:
    """Copy nodes into a program of their own, in which the constants that they read are buffers."""
    constants = Constants(program)
    inside = set(nodes)
    sources = dict.fromkeys(source for node in nodes for source in node.all_input_nodes if source not in inside)
    weights = [source for source in sources if constants.has(source)]
    inputs = [source for source in sources if not constants.has(source)]
    outputs = [node for node in nodes if any(user not in inside for user in node.users)]

    graph, copies = Graph(), {}
    input_specs: list[InputSpec] = []
    state_dict: dict[str, torch.Tensor] = {}
    for source in [*weights, *inputs]:
        copies[source] = placeholder = graph.placeholder(source.name)
        placeholder.meta = dict(source.meta)
        argument = TensorArgument(placeholder.name)
        if constants.has(source):
            spec = constants.specs[source.name]
            state_dict[spec.target] = constants.get(source)  # type: ignore[index]
            input_specs.append(InputSpec(InputKind.BUFFER, argument, spec.target, persistent=True))
        else:
            input_specs.append(InputSpec(InputKind.USER_INPUT, argument, None))
    for node in nodes:
        copies[node] = graph.node_copy(node, lambda other: copies[other])
        copies[node].meta = dict(node.meta)
    graph.output(tuple(copies[node] for node in outputs))
    graph.output_node().meta["val"] = tuple(node.meta["val"] for node in outputs)
    output_specs = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(copies[node].name), None) for node in outputs]
    signature = ExportGraphSignature(input_specs=input_specs, output_specs=output_specs)
    extracted = make_program(graph, signature, like=program, state_dict=state_dict, constants={})
    return _Partition(extracted, inputs, outputs)
