"""The nodes of the model that each operator of a TOSA graph computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch.fx import Node

from edgecore.sdk import debug_handles
from edgecore_tosa.builder import Value
from edgecore_tosa.graph import Graph, Operator


def assign_the_others(graph: Graph, calls: Sequence[Node], values: Mapping[Node, Value]) -> None:
    """Give each call that needs no operator of its own to the operators that do its work.

    That is the operator whose result is the call's value, as for a quantize node after a convolution; or else the
    operators of the calls that read it, as for a dequantize node.

    Args:
        graph: The graph, whose operators know the call that made them.
        calls: The calls of the partition, in their order.
        values: The value of each call.
    """
    producers = {operator.output: operator for operator in graph.operators}
    found: dict[Node, list[Operator]] = {}
    for operator in graph.operators:
        found.setdefault(operator.source, []).append(operator)
    for node in calls:
        if node not in found and node in values and values[node].tensor in producers:
            found[node] = [producers[values[node].tensor]]
            found[node][0].others.append(node)
    for node in reversed(calls):
        if node not in found:
            readers = [found[user][0] for user in node.users if user in found]
            for operator in dict.fromkeys(readers):
                operator.others.append(node)
            if readers:
                found[node] = readers


WHOLE = 0
"""The key of the partition as a whole, which the event of a delegate names that runs all operators at once."""


def debug_handle_map(graph: Graph) -> dict[int | str, tuple[int, ...]]:
    """Return the debug handles of the calls that each operator computes, by `Operator.name`, in the model's order.

    The graph has been written already, which names its operators. `WHOLE` has all handles.
    """
    found: dict[int | str, tuple[int, ...]] = {
        operator.name: debug_handles(*sorted([operator.source, *operator.others]))
        for operator in graph.operators
        if operator.source is not None
    }
    every = sorted({handle for handles in found.values() for handle in handles})
    return {**found, WHOLE: tuple(every)}
