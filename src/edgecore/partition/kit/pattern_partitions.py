"""Choose partitions by operators or patterns: helpers that ExecuTorch's documentation uses in its partitioners."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner, Partition
from torch.fx.passes.operator_support import OperatorSupportBase, any_chain
from torch.fx.passes.utils.matcher_utils import SubgraphMatcher


class _OperatorSupport(OperatorSupportBase):
    def __init__(self, operators: Collection[Any]) -> None:
        self._operators = frozenset(operators)

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        return node.op == "call_function" and node.target in self._operators


class _PatternSupport(OperatorSupportBase):
    def __init__(self, partitions: Iterable[Iterable[Node]]) -> None:
        self._nodes = frozenset(node for nodes in partitions for node in nodes)

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        return node in self._nodes


def create_op_support(operators: Collection[Any]) -> OperatorSupportBase:
    """Return an object that tells torch's partitioner to accept the calls of these operators."""
    return _OperatorSupport(operators)


def create_pattern_support(partitions: Iterable[Iterable[Node]]) -> OperatorSupportBase:
    """Return an object that tells torch's partitioner to accept these nodes, usually the matches of a pattern."""
    return _PatternSupport(partitions)


def generate_partitions_from_list_of_nodes(
    graph_module: GraphModule,
    pattern_list: Sequence[Sequence[Node]] | None = None,
    op_support: OperatorSupportBase | None = None,
) -> list[Partition]:
    """Return the largest partitions whose nodes are in `pattern_list` or are supported by `op_support`.

    Raises:
        ValueError: Both `pattern_list` and `op_support` are None.
    """
    supports = [create_pattern_support(pattern_list)] if pattern_list is not None else []
    supports += [op_support] if op_support is not None else []
    if not supports:
        raise ValueError("nothing says which nodes belong to partitions: give patterns, nodes or op_support")
    partitioner = CapabilityBasedPartitioner(graph_module, any_chain(*supports), allows_single_node_partition=True)
    return list(partitioner.propose_partitions())


def generate_pattern_op_partitions(
    graph_module: GraphModule,
    patterns: Sequence[Graph] | None = None,
    partitions_list: Sequence[Sequence[Node]] | None = None,
    op_support: OperatorSupportBase | None = None,
    ignore_literals: bool = False,
) -> list[Partition]:
    """Return the largest partitions of nodes that match a pattern, are listed, or are supported by `op_support`.

    Args:
        graph_module: The graph.
        patterns: Graphs of edge programs; their placeholders match any node.
        partitions_list: Lists of nodes.
        op_support: Object that decides which other nodes are supported.
        ignore_literals: True to let a number in a pattern match any number.

    Raises:
        ValueError: `patterns`, `partitions_list` and `op_support` are all None.
    """
    matched = [list(nodes) for nodes in partitions_list or ()]
    for pattern in patterns or ():
        for match in SubgraphMatcher(pattern, ignore_literals=ignore_literals).match(graph_module.graph):
            inner = [node for node in match.nodes_map.values() if node not in match.placeholder_nodes]
            matched.append([node for node in inner if node.op == "call_function"])
    is_given = patterns is not None or partitions_list is not None
    return generate_partitions_from_list_of_nodes(graph_module, matched if is_given else None, op_support)
