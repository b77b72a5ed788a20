"""From a partition to a blob: what your compiler does."""

from __future__ import annotations

from math import prod

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.constants import Constants
from edgecore.memory.specs import Bounds
from edgecore.plugin import CompileSpec, MemoryNeed, PreprocessResult
from edgecore_hello.blob import VERSION, Constant, Graph, Op, Operation, encode

aten = torch.ops.aten
FUSE_RELU = CompileSpec("fuse_relu", b"\x01")
_OPS = {aten.add.Tensor: Op.ADD, aten.mul.Tensor: Op.MUL, aten.relu.default: Op.RELU}
_ALIGNMENT = 16


def preprocess(program: ExportedProgram, *, fuse_relu: bool) -> PreprocessResult:
    """Compile one partition: a program of its own whose weights are placeholders, as its inputs are."""
    constants, bounds = Constants(program), Bounds(program)
    graph = Graph()
    values: dict[Node, int] = {}
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    for node in (node for node in placeholders if not constants.has(node)):
        values[node] = len(values)
        graph.input_ranks.append(node.meta["val"].dim())
    for node in (node for node in placeholders if constants.has(node)):
        values[node] = len(values)
        tensor = constants.get(node)
        graph.constants.append(Constant(tuple(tensor.shape), tensor.contiguous().numpy().tobytes()))

    first_node = len(values)
    handles: dict[int | str, tuple[int, ...]] = {}
    made: dict[int, Node] = {}  # by index of the blob's node: whose result it has
    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        source = values[node.args[0]]
        if fuse_relu and _follows(node):
            index, values[node] = source - first_node, source
            graph.nodes[index].relu = True
        else:
            index, values[node] = len(graph.nodes), first_node + len(graph.nodes)
            other = source if node.target is aten.relu.default else values[node.args[1]]
            graph.nodes.append(Operation(_OPS[node.target], (source, other)))
        made[index] = node
        handles[index] = (*handles.get(index, ()), *_handle(node))
    graph.outputs = [values[node] for node in program.graph.output_node().args[0]]

    inside = [node for index, node in made.items() if first_node + index not in graph.outputs]
    scratch = sum(_bytes([bounds.upper(size, node) for size in node.meta["val"].shape]) for node in inside)
    return PreprocessResult(
        blob=encode(graph),
        debug_handle_map={key: value for key, value in handles.items() if value},
        compatibility=f"hello-blob {VERSION}",
        memory=(MemoryNeed("scratch", scratch, alignment=_ALIGNMENT),) if scratch else (),
    )


def _follows(node: Node) -> bool:
    """Whether a node is a relu that alone reads the result of an add or mul."""
    source = node.args[0]
    return (
        node.target is aten.relu.default
        and isinstance(source, Node)
        and source.target in (aten.add.Tensor, aten.mul.Tensor)
        and len(source.users) == 1
    )


def _handle(node: Node) -> tuple[int, ...]:
    return (node.meta["debug_handle"],) if "debug_handle" in node.meta else ()


def _bytes(shape: list[int]) -> int:
    """Of a float32 tensor, up to where the next one starts."""
    return -(-4 * prod(shape) // _ALIGNMENT) * _ALIGNMENT
