"""Partitioning: the protocol, the capability partitioner, delegation and its report."""

from edgecore.ir.graph import for_each
from edgecore.partition.capability import CapabilityPartitioner
from edgecore.partition.fallback import Failure, Refusals
from edgecore.partition.lower import to_backend
from edgecore.partition.part import Part, debug_handles
from edgecore.partition.table import OperatorRow, OperatorTable, at_most_dims, contiguous_only
from edgecore.partition.types import TAG, DelegationSpec, Partitioner, PartitionResult, Rejection

__all__ = [
    "TAG", "CapabilityPartitioner", "DelegationSpec", "Failure", "OperatorRow", "OperatorTable", "Part", "PartitionResult",
    "Partitioner", "Refusals", "Rejection", "at_most_dims", "contiguous_only", "debug_handles",
    "for_each", "to_backend",
]  # fmt: skip
