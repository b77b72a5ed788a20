"""Describe a blob as text: its inputs, outputs and operator calls, with dtypes, sizes and layouts."""

from __future__ import annotations

from collections import Counter
from typing import Any

from edgecore.plugin import BlobGraph, BlobNode
from edgecore.sdk.flat import Buffer
from edgecore_vulkan.blob.costs import costs
from edgecore_vulkan.blob.format import read_graph
from edgecore_vulkan.schema import graph as s


def describe(blob: Buffer) -> list[str]:
    """Describe a blob in lines: its costs, inputs, outputs and calls.

    Raises:
        FormatError: The blob is damaged.
    """
    graph = read_graph(blob)
    kinds = Counter(call.name for call in graph.chain)
    size = sum(constant.length for constant in graph.constants)
    lines = [
        str(costs(graph)),
        f"{len(graph.chain)} calls: {', '.join(f'{count} {name}' for name, count in kinds.most_common())}",
        f"{len(graph.constants)} constants of {size:,} bytes",
    ]
    for kind, ids in (("input", graph.input_ids), ("output", graph.output_ids)):
        lines += [f"{kind} {index}: {_text(graph, number)}" for index, number in enumerate(ids)]
    for call in graph.chain:
        arguments = ", ".join(_text(graph, number) for number in call.args[:-1])
        lines.append(f"call {call.node_id}: {call.name}({arguments}) -> {_text(graph, call.args[-1])}")
    return lines


def graph_of(blob: Buffer) -> BlobGraph:
    """Return the graph of a blob: its operator calls, and the tensors and symbolic sizes that they read and write.

    Raises:
        FormatError: The blob is damaged.
    """
    graph = read_graph(blob)
    nodes = [
        BlobNode(
            call.node_id,
            call.name,
            tuple(number for argument in call.args[:-1] for number in _variables(graph, argument)),
            tuple(_variables(graph, call.args[-1])),
        )
        for call in graph.chain
    ]
    texts = {
        number: _text(graph, number).partition(" ")[2]
        for number, entry in enumerate(graph.values)
        if isinstance(entry.value, (s.VkTensor, s.SymInt))
    }
    return BlobGraph(tuple(nodes), tuple(graph.input_ids), tuple(graph.output_ids), texts)


def _variables(graph: s.Graph, number: int) -> list[int]:
    """Return the ids of the tensors and symbolic sizes in an argument, except constants."""
    value = graph.values[number].value
    if isinstance(value, s.ValueList):
        # The recursion ends, because `read_graph` has checked that no item of a list is a list.
        return [variable for item in value.items for variable in _variables(graph, item)]
    is_variable = isinstance(value, s.SymInt) or (isinstance(value, s.VkTensor) and value.constant_id < 0)
    return [number] if is_variable else []


def _text(graph: s.Graph, number: int) -> str:
    value: Any = graph.values[number].value
    match value:
        case s.VkTensor():
            kind = "constant" if value.constant_id >= 0 else value.memory_layout.name.lower()
            return f"%{number} {value.datatype.name.lower()} {value.dims} {kind}"
        case s.ValueList():
            return f"[{', '.join(_text(graph, item) for item in value.items)}]"
        case s.SymInt():
            return f"%{number} size"
        case s.Null():
            return "None"
        case s.IntList() | s.DoubleList() | s.BoolList():
            return str(value.items)
        case s.Int():
            return str(value.int_val)
        case s.Double():
            return f"{value.double_val:g}"
        case s.Bool():
            return str(value.bool_val)
    return repr(value.string_val)
