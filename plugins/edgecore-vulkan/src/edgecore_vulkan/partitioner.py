"""The partitioner: the operators of the table, and claims of mutable buffers."""

from __future__ import annotations

from collections.abc import Sequence

from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.sdk import TAG, CapabilityPartitioner, PartitionResult, UnsupportedReason, mutable_buffers
from edgecore_vulkan.operators import VulkanTable
from edgecore_vulkan.operators.state import can_hold, is_update

BACKEND_ID = "VulkanBackend"


class VulkanPartitioner(CapabilityPartitioner):
    """Tags the nodes that the operator table supports.

    An operator that writes rows of a mutable buffer in place is supported only if the delegate keeps the buffer, which
    is known after partitioning. So, as long as there is another one, it becomes unsupported, and the program is
    partitioned again.
    """

    def __init__(self, table: VulkanTable, operators: Sequence[str], min_partition_size: int) -> None:
        profile = table.profile
        plain = table.partitioner(
            BACKEND_ID,
            compile_specs=profile.specs(),
            operators=operators,
            min_partition_size=min_partition_size,
        )
        self._table_reasons = plain.unsupported_reasons
        self._excluded: dict[Node, str] = {}
        super().__init__(
            BACKEND_ID,
            self._reasons,
            compile_specs=profile.specs(),
            ops_to_not_decompose=table.ops_to_not_decompose,
            preserve=table.preserve,
            min_partition_size=min_partition_size,
            can_hold=can_hold if profile.holds_state else None,
        )

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag the supported nodes; every other call node gets a reason."""
        self._excluded.clear()
        result = super().partition(exported_program)
        while excluded := _unclaimed_updates(exported_program, result):
            self._excluded.update(excluded)
            for node in exported_program.graph.nodes:
                if node.meta.get(TAG) in result.partition_tags:
                    del node.meta[TAG]
            result = super().partition(exported_program)
        return result

    def _reasons(self, program: ExportedProgram) -> UnsupportedReason:
        reasons = self._table_reasons(program)
        return lambda node: self._excluded.get(node) or reasons(node)


def _unclaimed_updates(program: ExportedProgram, result: PartitionResult) -> dict[Node, str]:
    """Map the update of each mutable buffer that is tagged, and that the result does not claim, to the reason."""
    return {
        buffer.update: f"updates the buffer {buffer.name}, which the delegate does not keep"
        for buffer in mutable_buffers(program)
        if buffer.is_written
        and is_update(buffer.update)
        and TAG in buffer.update.meta
        and buffer.name not in result.claimed_buffers
    }
