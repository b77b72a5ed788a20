"""Partitioning: the protocol, the capability partitioner, delegation and its report."""

from edgecore.partition.capability import CapabilityPartitioner
from edgecore.partition.lower import Refusals, to_backend
from edgecore.partition.types import TAG, DelegationSpec, Partitioner, PartitionResult, Rejection

__all__ = [
    "TAG", "CapabilityPartitioner", "DelegationSpec", "PartitionResult", "Partitioner", "Refusals", "Rejection",
    "to_backend",
]  # fmt: skip
