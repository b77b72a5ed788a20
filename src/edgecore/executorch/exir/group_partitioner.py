"""`GroupBasedPartitioner`, for scripts of ExecuTorch: keeps the nodes of each given group in one partition.

A set of nodes is a bit mask: bit i stands for the node at position i of the graph.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence

from torch.fx import GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner, Partition
from torch.fx.passes.operator_support import OperatorSupportBase

from edgecore.ir.torch_compat import qualified_name

NON_COMPUTE = frozenset({"torch.ops.aten.view", "_operator.getitem"})
"""Operators that do not count among the two operators that a partition needs."""


class GroupBasedPartitioner(CapabilityBasedPartitioner):
    """Proposes partitions of supported nodes; the nodes of a group are in one partition.

    Args:
        graph_module: The graph.
        operator_support: Tells which nodes are supported; an unsupported node is in no partition, even in a group.
        allows_single_node_partition: Also propose partitions of a single operator.
        non_compute_ops: Qualified names of operators that do not justify a partition, in addition to `NON_COMPUTE`.
        allowed_single_node_partition_ops: Qualified names of operators that may be the only operator of a partition.
        node_groups: The groups.

    Raises:
        ValueError: A node is in two groups.
    """

    def __init__(
        self,
        graph_module: GraphModule,
        operator_support: OperatorSupportBase,
        allows_single_node_partition: bool = False,
        non_compute_ops: Sequence[str] | None = None,
        allowed_single_node_partition_ops: Sequence[str] | None = None,
        node_groups: Sequence[Sequence[Node]] | None = None,
    ) -> None:
        super().__init__(
            graph_module,
            operator_support,
            allows_single_node_partition,
            non_compute_ops,
            allowed_single_node_partition_ops,
        )
        self.node_groups = [list(dict.fromkeys(group)) for group in node_groups or ()]
        grouped = [node for group in self.node_groups for node in group]
        if twice := next((node for node in grouped if grouped.count(node) > 1), None):
            raise ValueError(f"Node {twice} exists in multiple groups.")

    def propose_partitions(self) -> list[Partition]:
        """Merge groups and single nodes into partitions that no path leaves and re-enters. Begin at the graph's end.

        Returns:
            The partitions.

        Raises:
            ValueError: The nodes of a group cannot be one partition.
        """
        reach = _Reach(self.graph_module)
        parts: list[int] = []
        for nodes in self._units():
            bits = reach.bits(nodes)
            if not reach.may_join(bits):
                names = ", ".join(node.name for node in nodes)
                raise ValueError(
                    f"the group {names} cannot be one partition: a path leaves it and returns, perhaps through another "
                    "group; put the nodes of the path in the group, or divide it"
                )
            parts.append(reach.join(bits))
        merged: list[int] = []
        while parts:
            first, rest = parts[0], []
            for other in parts[1:]:
                if reach.may_join(first | other):
                    first = reach.join(first | other)
                else:
                    rest.append(other)
            merged.append(first)
            parts = rest
        partitions = [Partition(id=number, nodes=reach.members(bits)) for number, bits in enumerate(merged)]
        return [
            partition for partition in partitions if self.allows_single_node_partition or self._is_enough(partition)
        ]

    def _units(self) -> Iterable[list[Node]]:
        """Yield the supported nodes of each group, and each other supported node, with the `getitem` nodes that read
        them.
        """
        group_of = {node: group for group in self.node_groups for node in group}
        seen: set[Node] = set()
        for node in reversed(self.graph_module.graph.nodes):
            if node in seen or not self._is_node_supported(node):
                continue
            if node.target is operator.getitem and node not in group_of and self._is_node_supported(node.args[0]):
                continue
            unit = [member for member in group_of.get(node, [node]) if self._is_node_supported(member)]
            unit += [
                user
                for member in unit
                for user in member.users
                if user.target is operator.getitem and user not in group_of and self._is_node_supported(user)
            ]
            seen.update(unit)
            yield unit

    def _is_enough(self, partition: Partition) -> bool:
        """Return True if a partition has two operators outside of `non_compute_ops`, or one that may be a partition
        alone.
        """
        non_compute = NON_COMPUTE.union(self.non_compute_ops or ())
        allowed = self.allowed_single_node_partition_ops or ()
        names = [qualified_name(node.target) for node in partition.nodes if node.op == "call_function"]  # type: ignore[arg-type]
        return sum((name not in non_compute) + (name in allowed) for name in names) > 1


class _Reach:
    """The transitive predecessors and successors of each node of a graph. Joined nodes count as one node."""

    def __init__(self, graph_module: GraphModule) -> None:
        self.nodes = list(graph_module.graph.nodes)
        self.position = {node: index for index, node in enumerate(self.nodes)}
        self.before = [0] * len(self.nodes)
        self.after = [0] * len(self.nodes)
        for index, node in enumerate(self.nodes):
            for source in node.all_input_nodes:
                self.before[index] |= self.before[self.position[source]] | 1 << self.position[source]
        for index, node in reversed(list(enumerate(self.nodes))):
            for user in node.users:
                self.after[index] |= self.after[self.position[user]] | 1 << self.position[user]

    def bits(self, nodes: Iterable[Node]) -> int:
        return sum(1 << self.position[node] for node in dict.fromkeys(nodes))

    def members(self, bits: int) -> list[Node]:
        return [self.nodes[index] for index in _positions(bits)]

    def _around(self, bits: int) -> tuple[int, int]:
        before = after = 0
        for index in _positions(bits):
            before |= self.before[index]
            after |= self.after[index]
        return before, after

    def may_join(self, bits: int) -> bool:
        """Return True if no other node is on a path between nodes of the set."""
        before, after = self._around(bits)
        return not before & after & ~bits

    def join(self, bits: int) -> int:
        """Treat the nodes of a set as one node, with the predecessors and successors of all of them. Return the set."""
        before, after = self._around(bits)
        for index in _positions(before | bits):
            self.after[index] |= after | bits
        for index in _positions(after | bits):
            self.before[index] |= before | bits
        return bits


def _positions(bits: int) -> Iterable[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
