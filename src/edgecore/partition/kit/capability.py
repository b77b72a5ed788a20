"""A partitioner that asks the backend about each node, and makes as few partitions as possible."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.control_flow import is_control_flow
from edgecore.ir.delegate import is_delegate_call
from edgecore.ir.dialect.op_sets import DATA_MOVEMENT
from edgecore.ir.program.constants import Constants
from edgecore.ir.program.mutable_state import MutableBuffer, mutable_buffers
from edgecore.ir.torch_compat import OpOverload
from edgecore.partition.claims import claimable_buffers
from edgecore.partition.kit.crossings import InsideOnly, crossings, keep_inside
from edgecore.partition.protocol import TAG, DelegationSpec, PartitionResult, UnsupportedNode, UnsupportedReason
from edgecore.plugin import CompileSpec

aten = torch.ops.aten

Preserve = Callable[[Node], bool]
"""A function that returns True for a node that must not be decomposed, because the backend supports it directly."""


class CapabilityPartitioner:
    """A partitioner that tags the nodes that a function of the backend accepts.

    Every node has a level. On each path to the node, count the steps from an unsupported node, or an input, to a
    supported node. The level is the largest of these counts, minus 1. In `input -> A -> unsupported -> B`, A has level
    0 and B level 1. The supported nodes of one level form one partition. Such a partition is convex, because a path
    that leaves it and comes back to a supported node arrives at a higher level. The number of partitions is minimal,
    because each counted step of a path to the highest level requires a new partition.

    A node that reads only constants, such as the dequantization of a weight, joins the partition of its user with the
    lowest level. A partition with only data movement, or fewer than `min_partition_size` other operators, is dropped.

    Some nodes turn out to be unsupported only when the partitions are known: updates of buffers that the backend does
    not keep, and nodes at the border of a partition whose values must not cross this border. Such nodes then count as
    unsupported, and the program is partitioned again, until no such nodes are left.

    Args:
        backend_id: The id of the backend.
        unsupported_reasons: Takes a program; returns the function that returns the reason why the backend does not
            support a node, or None.
        compile_specs: The compile specs of every partition.
        ops_to_not_decompose: Operators that the backend wants to receive undecomposed.
        preserve: Takes a program; returns the function that is True for calls of these operators that must stay. None
            to keep all calls.
        min_partition_size: The smallest number of operators in a partition.
        can_hold: Returns True for a mutable buffer to claim, whose state the backend can keep; None to claim none.
        updates_in_place: Returns True for a node that the backend supports only as the update of a mutable buffer
            whose state it keeps; None if there are no such nodes.
        inside_only: Identifies the values that the backend can neither take nor return, so that the nodes that compute
            and read them must be in one partition; None if there are no such values.
    """

    def __init__(
        self,
        backend_id: str,
        unsupported_reasons: Callable[[ExportedProgram], UnsupportedReason],
        *,
        compile_specs: Sequence[CompileSpec] = (),
        ops_to_not_decompose: Sequence[OpOverload] = (),
        preserve: Callable[[ExportedProgram], Preserve] | None = None,
        min_partition_size: int = 1,
        can_hold: Callable[[MutableBuffer], bool] | None = None,
        updates_in_place: Callable[[Node], bool] | None = None,
        inside_only: InsideOnly | None = None,
    ) -> None:
        self.spec = DelegationSpec(backend_id, tuple(compile_specs))
        self.unsupported_reasons = unsupported_reasons
        self._ops_to_not_decompose = tuple(ops_to_not_decompose)
        self.preserve = preserve
        self.min_partition_size = min_partition_size
        self.can_hold = can_hold
        self.updates_in_place = updates_in_place
        self.inside_only = inside_only

    def ops_to_not_decompose(self, exported_program: ExportedProgram) -> tuple[Sequence[OpOverload], Preserve | None]:
        """Return the operators to keep undecomposed, and a function that selects the calls to keep, or None for all."""
        return self._ops_to_not_decompose, self.preserve and self.preserve(exported_program)

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag the supported nodes; record a reason for every other call node."""
        excluded: dict[Node, str] = {}
        result = self._partition(exported_program, excluded)
        while unsupported := self._exclusions(exported_program, result):
            excluded.update(unsupported)
            for node in exported_program.graph.nodes:
                if node.meta.get(TAG) in result.partition_tags:
                    del node.meta[TAG]
            result = self._partition(exported_program, excluded)
        return result

    def is_operator(self, node: Node) -> bool:
        """Return True if a tagged node counts as an operator of its partition: it does more than move data."""
        return node.target not in DATA_MOVEMENT

    def _exclusions(self, exported_program: ExportedProgram, result: PartitionResult) -> dict[Node, str]:
        """Return tagged node -> reason, for the nodes that turn out to be unsupported in these partitions."""
        reasons = crossings(exported_program, self.inside_only) if self.inside_only else {}
        for buffer in mutable_buffers(exported_program) if self.updates_in_place else []:
            update = buffer.update
            is_claimed = buffer.name in result.claimed_buffers
            if buffer.is_written and TAG in update.meta and not is_claimed and self.updates_in_place(update):  # type: ignore[misc]
                reasons[update] = f"updates the buffer {buffer.name}, which the delegate does not keep"
        return reasons

    def _partition(self, exported_program: ExportedProgram, excluded: Mapping[Node, str]) -> PartitionResult:
        """Partition the program once, treating the nodes of `excluded` as unsupported."""
        reason_of, constants = self.unsupported_reasons(exported_program), Constants(exported_program)
        errors: dict[Node, Exception] = {}

        def check(node: Node) -> str | None:
            try:
                return excluded.get(node) or reason_of(node)
            except Exception as raised:
                errors[node] = raised
                return "its check failed"

        unsupported_reason: UnsupportedReason = check
        if self.inside_only:
            unsupported_reason = keep_inside(check, exported_program, self.inside_only)
        unsupported_nodes: list[UnsupportedNode] = []
        levels: dict[Node, int] = {}
        accepted: dict[Node, int] = {}  # supported node -> its level
        for node in exported_program.graph.nodes:
            reason = _reason(node, unsupported_reason, accepted)
            level = -1 if reason else 0
            for source in node.all_input_nodes:
                if not constants.has(source):
                    enters = reason is None and source not in accepted
                    level = max(level, levels[source] + enters)
            levels[node] = level
            if reason is None:
                accepted[node] = level
            elif node.op == "call_function":
                unsupported_nodes.append(UnsupportedNode(node.name, reason, errors.get(node)))
        for node in reversed(list(accepted)):
            users = [accepted[user] for user in node.users if user in accepted]
            if users and all(constants.has(source) for source in node.all_input_nodes):
                accepted[node] = min(users)
        by_level: dict[int, list[Node]] = {}
        for node, level in accepted.items():
            by_level.setdefault(level, []).append(node)
        # Define a tag even if no node is tagged: `to_backend` needs the backend's id to report reasons, and reads it
        # from a tag.
        tags = {self.spec.backend_id: self.spec}
        for level, nodes in sorted(by_level.items()):
            count = sum(map(self.is_operator, nodes))
            if count < max(self.min_partition_size, 1):
                too_small = f"in a partition of {count} operators, fewer than {self.min_partition_size}"
                reason = too_small if count else "in a partition with only data movement"
                unsupported_nodes.extend(UnsupportedNode(node.name, reason) for node in nodes)
                continue
            tag = f"{self.spec.backend_id}_{level}"
            tags[tag] = self.spec
            for node in nodes:
                node.meta[TAG] = tag
        can_hold = self.can_hold
        claimable = claimable_buffers(exported_program) if can_hold else []
        claimed = [buffer.name for buffer in claimable if can_hold and can_hold(buffer)]
        return PartitionResult(exported_program, tags, unsupported_nodes, claimed)


def _reason(node: Node, unsupported_reason: UnsupportedReason, accepted: dict[Node, int]) -> str | None:
    if node.op != "call_function":
        return "no operator"
    if node.target is operator.getitem:
        producer = node.args[0]
        return None if producer in accepted else f"result of {producer}, which is not delegated"
    if isinstance(node.target, OpOverload):
        return unsupported_reason(node)
    if is_control_flow(node):
        return "a branch or loop, whose bodies are partitioned by themselves"
    return "already delegated" if is_delegate_call(node) else "a computation on sizes"
