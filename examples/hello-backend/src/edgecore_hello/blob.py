"""Write, read and check the blob in the `.pte`, version 1. `native/src/blob.cpp` reads and checks the same format.

All numbers are little-endian and have 32 bits. There is no padding between them.

    header:    magic "HELLO" padded with zeros to 8 bytes; version; numbers of inputs, constants, nodes and outputs
    input:     rank
    constant:  rank, its sizes, its elements as float32
    node:      operator, 1 if a relu follows else 0, two operands (a unary operator has its operand twice)
    output:    value

Values are numbered: inputs first, then constants, then the result of each node. Operands have lower numbers than the
node's result. Outputs are results of different nodes. The blob has only the ranks of inputs, because their sizes may
change between runs.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import IntEnum
from math import prod

from edgecore.errors import FormatError
from edgecore.plugin import BlobGraph, BlobNode
from edgecore.sdk import ByteReader

MAGIC = b"HELLO\0\0\0"
VERSION = 1
MAX_RANK = 8


class Op(IntEnum):
    """Numbers of the operators in a blob."""

    ADD = 0
    MUL = 1
    RELU = 2


@dataclass
class Constant:
    """A constant: its shape, and its elements as bytes of float32."""

    shape: tuple[int, ...]
    data: bytes


@dataclass
class Operation:
    """A node of the graph. `relu`: apply relu to the result."""

    op: Op
    operands: tuple[int, int]
    relu: bool = False


@dataclass
class Graph:
    """Content of a blob."""

    input_ranks: list[int] = field(default_factory=list)
    constants: list[Constant] = field(default_factory=list)
    nodes: list[Operation] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)


def encode(graph: Graph) -> bytes:
    """Write a graph as a blob."""
    counts = (len(graph.input_ranks), len(graph.constants), len(graph.nodes), len(graph.outputs))
    parts = [MAGIC, _pack(VERSION, *counts, *graph.input_ranks)]
    for constant in graph.constants:
        parts += [_pack(len(constant.shape), *constant.shape), constant.data]
    parts += [_pack(node.op, node.relu, *node.operands) for node in graph.nodes]
    return b"".join((*parts, _pack(*graph.outputs)))


def decode(blob: bytes) -> Graph:
    """Read a blob. Raise `FormatError` if the bytes are not a blob of this version, or damaged."""
    reader = ByteReader(blob)
    reader.header(MAGIC, VERSION, "edgecore-hello")
    inputs, constants, nodes, outputs = (reader.count(min_bytes) for min_bytes in (4, 4, 16, 4))
    graph = Graph(list(reader.numbers(inputs)))
    graph.constants = [_constant(reader) for _ in range(constants)]
    for index in range(nodes):
        op, relu, first, second = reader.numbers(4)
        known = inputs + constants + index
        if op >= len(Op) or relu > 1 or max(first, second) >= known:
            raise FormatError(f"the blob is damaged: node {index}")
        graph.nodes.append(Operation(Op(op), (first, second), bool(relu)))
    graph.outputs = list(reader.numbers(outputs))
    reader.finish()
    if max(graph.input_ranks, default=0) > MAX_RANK:
        raise FormatError(f"the blob is damaged: a rank of {max(graph.input_ranks)}")
    results = range(inputs + constants, inputs + constants + nodes)
    if len(set(graph.outputs)) < outputs or not set(graph.outputs) <= set(results):
        raise FormatError(f"the blob is damaged: outputs {graph.outputs}")
    return graph


def describe(blob: bytes) -> list[str]:
    """Describe a blob with one line for each input, constant and node. Raise `FormatError` if it is damaged."""
    graph = decode(blob)
    lines = [f"input %{index}: rank {rank}" for index, rank in enumerate(graph.input_ranks)]
    for index, constant in enumerate(graph.constants, len(lines)):
        lines.append(f"constant %{index}: float32 {list(constant.shape)}")
    for index, node in enumerate(graph.nodes, len(lines)):
        operands = node.operands[:1] if node.op is Op.RELU else node.operands
        text = f"{node.op.name.lower()}({', '.join(f'%{operand}' for operand in operands)})"
        result = ", an output" if index in graph.outputs else ""
        lines.append(f"node %{index}: {f'relu({text})' if node.relu else text}{result}")
    return lines


def graph_of(blob: bytes) -> BlobGraph:
    """Return the operations of a blob, for `edgecore graph`. Raise `FormatError` if it is damaged."""
    graph = decode(blob)
    first = len(graph.input_ranks) + len(graph.constants)
    inputs = tuple(range(len(graph.input_ranks)))
    nodes = []
    for index, node in enumerate(graph.nodes):
        operands = dict.fromkeys(node.operands)  # a unary operator has its operand twice
        read = tuple(value for value in operands if value in inputs or value >= first)
        nodes.append(BlobNode(index, node.op.name.lower(), read, (first + index,)))
    dtypes = {first + index: "float32" for index in range(len(nodes))}
    return BlobGraph(tuple(nodes), inputs, tuple(graph.outputs), dtypes)


def _pack(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


def _constant(reader: ByteReader) -> Constant:
    rank = reader.number()
    if rank > MAX_RANK:
        raise FormatError(f"the blob is damaged: a rank of {rank}")
    shape = reader.numbers(rank)
    return Constant(shape, reader.take(4 * prod(shape)))
