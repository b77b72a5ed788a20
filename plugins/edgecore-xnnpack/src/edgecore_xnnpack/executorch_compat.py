"""Find what in a blob the XNNPACK delegate of executorch 1.5 would refuse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from edgecore.errors import FormatError
from edgecore_xnnpack.blob import read_graph
from edgecore_xnnpack.schema import graph as g

_FORBIDDEN: dict[type, str] = {g.ScaledDotProductAttention: "the node ScaledDotProductAttention"}
_STOCK_FLAGS = (0, g.EXTERNAL_INPUT, g.EXTERNAL_OUTPUT, g.EXTERNAL_INPUT | g.EXTERNAL_OUTPUT)


def incompatibilities(blob: bytes, named_data: Mapping[str, Any], *, stock: bool) -> list[str]:
    """List sentences about a malformed blob and missing weights and, for `stock`, about what executorch 1.5 refuses."""
    try:
        graph = read_graph(blob)
    except FormatError as error:
        return [str(error)]
    problems = list(_missing(graph, named_data))
    return problems + list(_beyond_stock(graph)) if stock else problems


def _missing(graph: g.Graph, named_data: Mapping[str, Any]) -> Iterator[str]:
    for index, constant in enumerate(graph.constant_data):
        if constant.named_key and constant.named_key not in named_data:
            yield f"constant {index} is the named data {constant.named_key}, which the file does not hold"


def _beyond_stock(graph: g.Graph) -> Iterator[str]:
    if graph.num_externs > g.MAX_EXTERNALS:
        yield f"{graph.num_externs} external values; executorch 1.5 takes at most {g.MAX_EXTERNALS}"
    for index, node in enumerate(graph.nodes):
        if type(node.node) in _FORBIDDEN:
            yield f"node {index}: executorch 1.5 does not have {_FORBIDDEN[type(node.node)]}"
    for index, entry in enumerate(graph.values):
        value = entry.value.tensor_value if isinstance(entry.value, g.QuantizedTensorValue) else entry.value
        if not isinstance(value, g.TensorValue):
            yield f"value {index} has no tensor"
            continue
        if value.flags not in _STOCK_FLAGS:
            yield f"value {index} has flags {value.flags:#x}; executorch 1.5 takes input (1) and output (2) only"
        if value.num_dims > g.MAX_RANK or value.num_dims != len(value.dims):
            yield f"value {index} has {value.num_dims} dimensions and {len(value.dims)} sizes; at most {g.MAX_RANK}"
