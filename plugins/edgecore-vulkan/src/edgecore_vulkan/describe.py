"""Describe a blob as text: its arguments and operator calls, with dtypes, sizes and layouts."""

from __future__ import annotations

from collections import Counter
from typing import Any

from edgecore.sdk.flat import Buffer
from edgecore_vulkan.blob import read_graph
from edgecore_vulkan.costs import costs
from edgecore_vulkan.schema import graph as s


def describe(blob: Buffer) -> list[str]:
    """Return lines about the blob, each argument and each call.

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


def _text(graph: s.Graph, number: int, is_item: bool = False) -> str:
    value: Any = graph.values[number].value
    match value:
        case s.VkTensor():
            kind = "constant" if value.constant_id >= 0 else value.memory_layout.name.lower()
            return f"%{number} {value.datatype.name.lower()} {value.dims} {kind}"
        case s.ValueList():
            items = ["..."] if is_item else [_text(graph, item, is_item=True) for item in value.items]
            return f"[{', '.join(items)}]"
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
