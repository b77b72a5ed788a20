"""Partitioning: the protocol, the capability partitioner, delegation and its report."""

from edgecore.partition.types import TAG, DelegationSpec, Partitioner, PartitionResult, Rejection

__all__ = ["TAG", "DelegationSpec", "PartitionResult", "Partitioner", "Rejection"]
