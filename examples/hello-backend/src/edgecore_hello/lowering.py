"""Compile a partition into a blob. Replace this module by a call of your compiler."""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.plugin import MemoryNeed, PreprocessResult
from edgecore.sdk import PartitionView, debug_handles
from edgecore_hello.blob import VERSION, Constant, Graph, Operation, encode
from edgecore_hello.operators import TABLE

aten = torch.ops.aten
_ALIGNMENT = 16


def preprocess(program: ExportedProgram, *, fuse_relu: bool) -> PreprocessResult:
    """Compile one partition, which is a separate program: its inputs and its weights are placeholders."""
    part, graph = PartitionView(program), Graph()
    values: dict[Node, int] = {}
    for node in part.inputs:
        values[node] = len(values)
        graph.input_ranks.append(node.meta["val"].dim())
    for node, tensor in part.constants.items():
        values[node] = len(values)
        graph.constants.append(Constant(tuple(tensor.shape), tensor.contiguous().numpy().tobytes()))

    first_node = len(values)
    origins: list[list[Node]] = []  # the graph nodes of each node of the blob; the last one computes its result
    for node in part.calls:
        source = node.args[0]
        assert isinstance(source, Node)
        if fuse_relu and _can_fuse(source, node):
            values[node] = values[source]
            graph.nodes[values[node] - first_node].relu = True
            origins[values[node] - first_node].append(node)
            continue
        values[node] = first_node + len(graph.nodes)
        other = source if node.target is aten.relu.default else node.args[1]
        assert isinstance(other, Node)
        graph.nodes.append(Operation(TABLE.rows[node.target].lower, (values[source], values[other])))
        origins.append([node])
    graph.outputs = [values[node] for node in part.outputs]

    inside = [nodes[-1] for nodes in origins if nodes[-1] not in part.outputs]
    scratch = sum(part.max_bytes(node, _ALIGNMENT) for node in inside)
    return PreprocessResult(
        blob=encode(graph),
        debug_handle_map={index: debug_handles(*nodes) for index, nodes in enumerate(origins)},
        compatibility=f"hello-blob {VERSION}",
        memory=(MemoryNeed("scratch", scratch, alignment=_ALIGNMENT),) if scratch else (),
    )


def _can_fuse(source: Node, node: Node) -> bool:
    """Return True if `node` is a relu and the only user of `source`, an add or mul."""
    is_arithmetic = source.target in (aten.add.Tensor, aten.mul.Tensor)
    return node.target is aten.relu.default and is_arithmetic and len(source.users) == 1
