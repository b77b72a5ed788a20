"""The partitioner: it delegates the operators of the operator table, and takes over mutable buffers."""

from __future__ import annotations

from collections.abc import Sequence

from edgecore.sdk import CapabilityPartitioner
from edgecore_vulkan.graph.profile import Profile
from edgecore_vulkan.operators import VulkanTable
from edgecore_vulkan.operators.state import can_hold, is_update

BACKEND_ID = "VulkanBackend"


def make_partitioner(profile: Profile, operators: Sequence[str], min_operators: int) -> CapabilityPartitioner:
    """Create a partitioner that delegates the operators that the operator table supports for `profile`.

    Args:
        profile: The target runtime and the options of the compilation.
        operators: Delegate only these operators (`aten.add.Tensor` or `add`); all if empty.
        min_operators: Do not delegate partitions with fewer operators.
    """
    return VulkanTable(profile).partitioner(
        BACKEND_ID,
        compile_specs=profile.specs(),
        operators=operators,
        min_partition_size=min_operators,
        can_hold=can_hold if profile.holds_state else None,
        updates_in_place=is_update,
    )
