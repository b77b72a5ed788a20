"""The partitioner: it rejects nodes by the operator table first, and then asks the provider about the other nodes.

The provider is asked about these nodes as one graph. If it compiles the graph, all nodes are supported, and
`preprocess` finds the result in the cache. If not, the provider lists the nodes that it refuses. It may refuse further
nodes once the listed nodes are removed, so it is asked again until it accepts the remaining nodes, at most `_ROUNDS`
times.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.errors import CompileError
from edgecore.sdk import CapabilityPartitioner, PartitionView, is_dequantize, is_quantize
from edgecore_qnn.onnx_graph import OnnxGraph, build
from edgecore_qnn.operators import TABLE
from edgecore_qnn.operators.quantized import BLOCKS
from edgecore_qnn.options import QnnOptions
from edgecore_qnn.provider.process import ask, is_installed

BACKEND_ID = "QnnBackend"
_ROUNDS = 8
_ORT_SUFFIX = "_token_"
"""Suffix that ONNX Runtime appends to the name of a node that it converts to another layout."""

Reason = Callable[[Node], "str | None"]


class OptionsPartitioner(CapabilityPartitioner):
    """The partitioner of the QNN backend, made from the backend's options."""

    def __init__(self, options: QnnOptions) -> None:
        super().__init__(
            BACKEND_ID,
            lambda program: _reasons(program, options),
            compile_specs=options.to_specs(),
            ops_to_not_decompose=TABLE.ops_to_not_decompose,
            preserve=TABLE.preserve,
            min_partition_size=options.min_operators,
        )


def _reasons(program: ExportedProgram, options: QnnOptions) -> Reason:
    """Return a function that says why a node is not supported; the function returns None for a supported node."""
    by_rows = TABLE.unsupported_reasons(program)
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    reasons = {node: by_rows(node) or _left_out(node, options) for node in calls if node.target is not operator.getitem}
    _leave_useless(reasons, PartitionView(program))
    if is_installed():
        reasons.update(_refused(program, reasons, options))
    return lambda node: reasons[node] if node in reasons else by_rows(node)


def _leave_useless(reasons: dict[Node, str | None], partition: PartitionView) -> None:
    """Refuse nodes that would be wrong or useless in a delegate because nodes before or after them are refused."""
    for node, reason in list(reasons.items()):
        if node.target is BLOCKS and reason is not None:
            # if a dequantized weight is an input, the provider computes wrong results
            for user in reasons.keys() & node.users.keys():
                reasons[user] = reasons[user] or "its weight is not supported"
    fixed = set(partition.constants)
    for node in reasons:
        if node.all_input_nodes and fixed.issuperset(node.all_input_nodes):
            fixed.add(node)
    for node in reversed(reasons):
        if node in fixed and reasons[node] is None and any(reasons.get(user, "") for user in node.users):
            reasons[node] = "it reads constants only, and an operator that reads it is not supported"
    for node, reason in reasons.items():
        if reason is None and _is_conversion(node) and not _is_needed(node, reasons):
            reasons[node] = "it converts integers, and no operator beside it is supported"


def _is_conversion(node: Node) -> bool:
    return is_quantize(node) or is_dequantize(node)


def _is_needed(node: Node, reasons: Mapping[Node, str | None]) -> bool:
    """Return True if a delegated operator precedes or follows a (de)quantize node, directly or after another one."""

    def computes(other: Node) -> bool:
        return not _is_conversion(other) and other.target is not operator.getitem and reasons.get(other, "") is None

    source = node.all_input_nodes[0]
    source = source.all_input_nodes[0] if source.target is operator.getitem else source
    readers = list(node.users)
    if is_quantize(node):
        return computes(source) or any(computes(user) for reader in readers for user in reader.users)
    before = source.all_input_nodes[0] if is_quantize(source) and source.all_input_nodes else None
    return any(map(computes, readers)) or (before is not None and computes(before))


def _left_out(node: Node, options: QnnOptions) -> str | None:
    """Return the reason why the user's options exclude a node that the operator table supports; None if they do not."""
    names = set(TABLE.rows[node.target].names) if node.target in TABLE.rows else set()
    if options.operators and not names & set(options.operators):
        return "left out by the option operators"
    if node.name in options.skip_node_id_set:
        return "left out by the option skip_node_id_set"
    if names & set(options.skip_node_op_set):
        return "left out by the option skip_node_op_set"
    if options.use_fp16 and options.soc.has_fp16:
        return None
    if _computes_floats(node):
        if options.soc.has_fp16:
            return "it computes in floating point, and use_fp16 is False"
        return (
            f"it computes in floating point, and the NPU of {options.soc.name} with integers only: compile with "
            "quantize='int8' or 'int16x8'"
        )
    return None


def _computes_floats(node: Node) -> bool:
    """Return True if an operator computes in floating point: it and the operators fused with it are not quantized."""
    if _is_conversion(node):
        return False
    sources = [source for source in node.all_input_nodes if source.op == "call_function"]
    fused = [source for source in sources if len(source.users) == 1 and not _is_conversion(source)]
    return not any(is_dequantize(source) for source in sources) and all(map(_computes_floats, fused))


def _refused(program: ExportedProgram, reasons: Mapping[Node, str | None], options: QnnOptions) -> dict[Node, str]:
    """Map each unsupported node to the reason, which comes from `reasons` or is a message of the provider."""
    partition = PartitionView(program)
    outside = dict(reasons)
    for _ in range(_ROUNDS):
        graph = _graph(partition, [node for node, reason in outside.items() if reason is None])
        if graph is None or _compiles(graph, options):
            break
        refused = refused_nodes(graph, options)
        if not refused:
            break
        outside.update(refused)
        _leave_useless(outside, partition)
    return {node: reason for node, reason in outside.items() if reason is not None}


def _graph(partition: PartitionView, chosen: list[Node]) -> OnnxGraph | None:
    """Build the ONNX graph of some nodes of a program; None if it has no inputs or no outputs."""
    inside = set(chosen)
    inside |= {node for node in partition.calls if node.target is operator.getitem and node.args[0] in inside}
    calls = [node for node in partition.calls if node in inside]
    read = dict.fromkeys(source for node in calls for source in node.all_input_nodes)
    outer = [node for node in read if node not in inside and node not in partition.constants]
    inputs = [node for node in partition.inputs if node in read] + [n for n in outer if n not in partition.inputs]
    results = [node for node in calls if isinstance(node.meta["val"], torch.Tensor)]
    used = [node for node in results if node in partition.outputs or any(user not in inside for user in node.users)]
    outputs = [node for node in dict.fromkeys(partition.outputs) if node in used]
    outputs += [node for node in used if node not in partition.outputs]
    return build(partition, inputs, calls, outputs) if inputs and outputs else None


def _compiles(graph: OnnxGraph, options: QnnOptions) -> bool:
    try:
        ask("compile", graph.to_bytes(), options.soc, options.provider_options(), seconds=options.timeout)
    except CompileError:
        return False
    return True


def refused_nodes(graph: OnnxGraph, options: QnnOptions) -> dict[Node, str]:
    """Return the nodes that the provider refuses, with its messages."""
    answer = ask("assign", graph.to_bytes(), options.soc, options.provider_options(), seconds=options.timeout)
    messages: Mapping[str, Any] = answer.result["refused"]
    refused: dict[Node, str] = {}
    for name, message in messages.items():
        owner = graph.owners.get(name.partition(_ORT_SUFFIX)[0])
        if owner is not None and (owner not in refused or message):
            refused[owner] = f"the QNN provider does not take it for {options.soc.name}" + (
                f": {message}" if message else ""
            )
    return refused
