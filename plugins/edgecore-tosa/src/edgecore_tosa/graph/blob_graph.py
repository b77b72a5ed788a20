"""Convert TOSA graphs to edgecore's `BlobGraph`, for tools that show the inside of delegates."""

from __future__ import annotations

from edgecore.plugin import BlobGraph, BlobNode
from edgecore_tosa.graph.graph import Graph, Tensor


def blob_graph(graph: Graph) -> BlobGraph:
    """Return the operators of a graph, without constants, as nodes; `origins.debug_handle_map` uses the same names.

    Operators have names only after `Graph.to_bytes`, or in a graph that was read from bytes.
    """
    numbers: dict[Tensor, int] = {}
    for tensor in (*graph.inputs, *(operator.output for operator in graph.operators)):
        numbers.setdefault(tensor, len(numbers))
    nodes = [
        BlobNode(
            operator.name,
            operator.op.name,
            tuple(numbers[tensor] for tensor in operator.inputs if tensor in numbers),
            (numbers[operator.output],),
        )
        for operator in graph.operators
    ]
    for tensor in graph.outputs:
        if tensor not in numbers:  # only constants have no number yet
            numbers[tensor] = len(numbers)
            nodes.append(BlobNode(f"CONST {tensor.name}", "CONST", (), (numbers[tensor],)))
    return BlobGraph(
        tuple(nodes),
        tuple(numbers[tensor] for tensor in graph.inputs),
        tuple(numbers[tensor] for tensor in graph.outputs),
        {number: f"{tensor.dtype.name.lower()} {list(tensor.shape)}" for tensor, number in numbers.items()},
    )
