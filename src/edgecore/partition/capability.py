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
from edgecore.partition.types import TAG, DelegationSpec, PartitionResult, Rejection
from edgecore.plugin import CompileSpec

aten = torch.ops.aten

DATA_MOVEMENT = frozenset({
    aten.view_copy.default, aten.permute_copy.default, aten.transpose_copy.int, aten.unsqueeze_copy.default,
    aten.squeeze_copy.dims, aten.squeeze_copy.dim, aten.expand_copy.default, aten.slice_copy.Tensor,
    aten.select_copy.int, aten.clone.default, aten._to_copy.default, aten.split_with_sizes_copy.default,
    aten.unbind_copy.int, aten.stack.default, aten.repeat.default, aten.flip.default, aten.roll.default,
    aten.pixel_shuffle.default, aten.pixel_unshuffle.default, aten.index_select.default, aten.index.Tensor,
    aten.slice_scatter.default, aten.select_scatter.default, aten.copy.default, operator.getitem,
})  # fmt: skip
"""Operators that only move data: a partition of nothing else is not worth a delegate."""

Check = Callable[[Node], "str | None"]
"""Why a backend refuses a node; None if it takes it."""

Keep = Callable[[Node], bool]


class CapabilityPartitioner:
    """Tags what `check` accepts.

    Every node has a level: the number of changes between the backend and the outside on the longest path to it. The
    accepted nodes of one level form one partition. No path leads from a partition out and back into it, since leaving
    and returning raises the level; and no partitioning into convex parts has fewer parts than the longest path demands.
    What reads constants only, such as a weight's dequantization, is where its first reader is. A partition that only moves
    data, or has fewer than `least` other operators, stays outside.
    """

    def __init__(
        self,
        backend_id: str,
        check: Callable[[ExportedProgram], Check],
        *,
        compile_specs: Sequence[CompileSpec] = (),
        whole: Sequence[OpOverload] = (),
        keep: Keep | None = None,
        least: int = 1,
    ) -> None:
        self.spec = DelegationSpec(backend_id, tuple(compile_specs))
        self.check = check
        self.whole = tuple(whole)
        self.keep = keep
        self.least = least

    def ops_to_not_decompose(self, exported_program: ExportedProgram) -> tuple[Sequence[OpOverload], Keep | None]:
        """The operators that the backend wants whole."""
        return self.whole, self.keep

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag the accepted nodes; every other call node gets a reason."""
        check, constants = self.check(exported_program), Constants(exported_program)
        rejections: list[Rejection] = []
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
                rejections.append(Rejection(node.name, reason, error))
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
            if working < max(self.least, 1):
                few = f"in a partition of {working} operators, fewer than {self.least}"
                reason = few if working else "a partition of nothing but data movement"
                rejections.extend(Rejection(node.name, reason) for node in nodes)
                continue
            tag = f"{self.spec.backend_id}_{level}"
            tags[tag] = self.spec
            for node in nodes:
                node.meta[TAG] = tag
        return PartitionResult(exported_program, tags, rejections)


def _reason(node: Node, check: Check, accepted: dict[Node, int]) -> str | None:
    if node.target is operator.getitem:
        producer = node.args[0]
        return None if producer in accepted else f"result of {producer}, which is outside"
    if isinstance(node.target, OpOverload):
        return check(node)
    return "already delegated" if is_delegate_call(node) else "a computation on sizes"
