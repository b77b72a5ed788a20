"""The partitioner that most backends need: a question per node, and the fewest partitions that the answers allow."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.constants import Constants
from edgecore.ir.delegate import is_delegate_call
from edgecore.ir.op_sets import DATA_MOVEMENT
from edgecore.partition.protocol import TAG, DelegationSpec, PartitionResult, UnsupportedNode
from edgecore.plugin import CompileSpec

aten = torch.ops.aten

UnsupportedReason = Callable[[Node], "str | None"]
"""Why a backend refuses a node; None if it takes it."""

Preserve = Callable[[Node], bool]


class CapabilityPartitioner:
    """Tags what `check` accepts.

    Every node has a level: the number of changes between the backend and the outside on the longest path to it. The
    accepted nodes of one level form one partition. No path leads from a partition out and back into it, since leaving
    and returning raises the level; and no partitioning into convex parts has fewer parts than the longest path demands.
    What reads constants only, such as a weight's dequantization, is where its first reader is. A partition that only moves
    data, or has fewer than `min_partition_size` other operators, stays outside.
    """

    def __init__(
        self,
        backend_id: str,
        check: Callable[[ExportedProgram], UnsupportedReason],
        *,
        compile_specs: Sequence[CompileSpec] = (),
        ops_to_not_decompose: Sequence[OpOverload] = (),
        preserve: Callable[[ExportedProgram], Preserve] | None = None,
        min_partition_size: int = 1,
    ) -> None:
        self.spec = DelegationSpec(backend_id, tuple(compile_specs))
        self.check = check
        self._ops_to_not_decompose = tuple(ops_to_not_decompose)
        self.preserve = preserve
        self.min_partition_size = min_partition_size

    def ops_to_not_decompose(self, exported_program: ExportedProgram) -> tuple[Sequence[OpOverload], Preserve | None]:
        """The operators that the backend wants whole."""
        return self._ops_to_not_decompose, self.preserve and self.preserve(exported_program)

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag the accepted nodes; every other call node gets a reason."""
        check, constants = self.check(exported_program), Constants(exported_program)
        unsupported_nodes: list[UnsupportedNode] = []
        levels: dict[Node, int] = {}
        accepted: dict[Node, int] = {}
        for node in exported_program.graph.nodes:
            error = None
            try:
                reason = _reason(node, check, accepted) if node.op == "call_function" else "no operator"
            except Exception as raised:
                reason, error = "its check failed", raised
            level = -1 if reason else 0
            for source in node.all_input_nodes:
                if not constants.has(source):
                    enters = reason is None and source not in accepted
                    level = max(level, levels[source] + enters)
            levels[node] = level
            if reason is None:
                accepted[node] = level
            elif node.op == "call_function":
                unsupported_nodes.append(UnsupportedNode(node.name, reason, error))
        for node in reversed(list(accepted)):
            users = [accepted[user] for user in node.users if user in accepted]
            if users and all(constants.has(source) for source in node.all_input_nodes):
                accepted[node] = min(users)
        by_level: dict[int, list[Node]] = {}
        for node, level in accepted.items():
            by_level.setdefault(level, []).append(node)
        # Always there: the report names the backend also where it took nothing.
        tags = {self.spec.backend_id: self.spec}
        for level, nodes in sorted(by_level.items()):
            working = sum(node.target not in DATA_MOVEMENT for node in nodes)
            if working < max(self.min_partition_size, 1):
                few = f"in a partition of {working} operators, fewer than {self.min_partition_size}"
                reason = few if working else "a partition of nothing but data movement"
                unsupported_nodes.extend(UnsupportedNode(node.name, reason) for node in nodes)
                continue
            tag = f"{self.spec.backend_id}_{level}"
            tags[tag] = self.spec
            for node in nodes:
                node.meta[TAG] = tag
        return PartitionResult(exported_program, tags, unsupported_nodes)


def _reason(node: Node, check: UnsupportedReason, accepted: dict[Node, int]) -> str | None:
    if node.target is operator.getitem:
        producer = node.args[0]
        return None if producer in accepted else f"result of {producer}, which is outside"
    if isinstance(node.target, OpOverload):
        return check(node)
    return "already delegated" if is_delegate_call(node) else "a computation on sizes"
