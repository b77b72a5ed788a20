"""Map each operator of a TOSA graph to the fx nodes of the model that it computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch.fx import Node

from edgecore.sdk import debug_handles
from edgecore_tosa.graph.graph import Graph, Operator, Tensor


def assign_unwritten(graph: Graph, calls: Sequence[Node], tensors: Mapping[Node, Tensor]) -> None:
    """Assign each fx node for which no operator was written to operators of other nodes that also compute it.

    If an operator's result is the node's tensor, the node is assigned to that operator: for example a quantize node to
    the convolution before it. Any other node, such as a dequantize node, is assigned to the operators of its users.

    Args:
        graph: The graph. `Operator.source` is the fx node for which an operator was written.
        calls: The fx nodes of the partition in execution order.
        tensors: The tensor of each call's result in the TOSA graph.
    """
    producers = {operator.output: operator for operator in graph.operators}
    operators_of: dict[Node, list[Operator]] = {}
    for operator in graph.operators:
        operators_of.setdefault(operator.source, []).append(operator)
    for node in calls:
        if node not in operators_of and node in tensors and tensors[node] in producers:
            operators_of[node] = [producers[tensors[node]]]
            operators_of[node][0].others.append(node)
    for node in reversed(calls):
        if node not in operators_of:
            readers = [operators_of[user][0] for user in node.users if user in operators_of]
            for operator in dict.fromkeys(readers):
                operator.others.append(node)
            if readers:
                operators_of[node] = readers


WHOLE = 0
"""Debug-handle key of the whole partition, used by delegates that report one event per call."""


def debug_handle_map(graph: Graph) -> dict[int | str, tuple[int, ...]]:
    """Map `Operator.name` to the debug handles of the operator's fx nodes, sorted by position in the model.

    `WHOLE` maps to all handles. Call `Graph.to_bytes` first, because it names the operators.
    """
    handles_of: dict[int | str, tuple[int, ...]] = {
        operator.name: debug_handles(*sorted([operator.source, *operator.others]))
        for operator in graph.operators
        if operator.source is not None
    }
    every = sorted({handle for handles in handles_of.values() for handle in handles})
    return {**handles_of, WHOLE: tuple(every)}
