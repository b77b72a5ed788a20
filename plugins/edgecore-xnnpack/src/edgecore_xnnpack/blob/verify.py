"""Check that the XNNPACK delegate of executorch 1.5 can run a blob."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from edgecore_xnnpack.blob.format import read_graph
from edgecore_xnnpack.schema import graph as g

_FORBIDDEN: dict[type, str] = {
    g.ScaledDotProductAttention: "the node ScaledDotProductAttention",
    g.CacheUpdate: "the node CacheUpdate",
}
_SUPPORTED_FLAGS = (0, g.EXTERNAL_INPUT, g.EXTERNAL_OUTPUT, g.EXTERNAL_INPUT | g.EXTERNAL_OUTPUT)


def incompatibilities(blob: bytes, named_data: Mapping[str, Any], *, for_executorch: bool) -> list[str]:
    """List the errors of a blob, one sentence each; an empty list means that the blob is valid.

    Args:
        blob: The blob.
        named_data: The named data of the file, by key.
        for_executorch: Also check what the XNNPACK delegate of executorch 1.5 supports.

    Raises:
        FormatError: The blob is damaged.
    """
    graph = read_graph(blob)
    problems = list(_missing(graph, named_data))
    return problems + list(_unsupported_by_executorch(graph)) if for_executorch else problems


def _missing(graph: g.Graph, named_data: Mapping[str, Any]) -> Iterator[str]:
    """Yield an error for each constant of the graph whose bytes are missing in the named data of the file."""
    for index, constant in enumerate(graph.constant_data):
        if constant.named_key and constant.named_key not in named_data:
            yield f"constant {index} is the named data {constant.named_key}, which the file does not hold"
    for state in graph.states or ():
        if state.has_initial and state.name not in named_data:
            yield f"the initial content of the state {state.name} is not in the file"


def _unsupported_by_executorch(graph: g.Graph) -> Iterator[str]:
    if graph.num_externs > g.MAX_EXTERNALS:
        yield f"{graph.num_externs} external values; executorch 1.5 supports at most {g.MAX_EXTERNALS}"
    for state in graph.states or ():
        yield f"the state {state.name}; the XNNPACK delegate of executorch 1.5 keeps no state"
    for index, node in enumerate(graph.nodes):
        if type(node.node) in _FORBIDDEN:
            yield f"node {index}: executorch 1.5 does not support {_FORBIDDEN[type(node.node)]}"
    for index, entry in enumerate(graph.values):
        value = entry.value.tensor_value if isinstance(entry.value, g.QuantizedTensorValue) else entry.value
        if not isinstance(value, g.TensorValue):
            yield f"value {index} has no tensor"
            continue
        if value.flags not in _SUPPORTED_FLAGS:
            yield f"value {index} has flags {value.flags:#x}; executorch 1.5 supports only input (1) and output (2)"
        if value.num_dims > g.MAX_RANK or value.num_dims != len(value.dims):
            yield (
                f"value {index} has {value.num_dims} dimensions and {len(value.dims)} sizes; "
                f"both numbers must be equal and at most {g.MAX_RANK}"
            )
