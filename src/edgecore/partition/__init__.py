"""Partitioning: the protocol of partitioners, a kit to write them, the delegation of partitions, and diagnostics."""

from edgecore.partition.claims import claimable_buffers, held_buffers
from edgecore.partition.delegate import to_backend
from edgecore.partition.fallback import Failure, PartitionDiagnostics
from edgecore.partition.kit.capability import CapabilityPartitioner
from edgecore.partition.kit.node_query import NodeQuery
from edgecore.partition.kit.operator_table import (
    Constraint,
    OperatorRow,
    OperatorTable,
    at_most_dims,
    contiguous_only,
    integers_of_32_bits,
    no_empty_tensors,
    same_ranks,
    static_sizes,
)
from edgecore.partition.kit.pattern_partitions import (
    create_op_support,
    create_pattern_support,
    generate_partitions_from_list_of_nodes,
    generate_pattern_op_partitions,
)
from edgecore.partition.kit.view import PartitionView, debug_handles
from edgecore.partition.protocol import (
    TAG,
    DelegationSpec,
    LayoutReason,
    Partitioner,
    PartitionResult,
    UnsupportedNode,
    UnsupportedReason,
    check_partitioner,
)

__all__ = [
    "TAG",
    "CapabilityPartitioner",
    "Constraint",
    "DelegationSpec",
    "Failure",
    "LayoutReason",
    "NodeQuery",
    "OperatorRow",
    "OperatorTable",
    "PartitionDiagnostics",
    "PartitionResult",
    "PartitionView",
    "Partitioner",
    "UnsupportedNode",
    "UnsupportedReason",
    "at_most_dims",
    "check_partitioner",
    "claimable_buffers",
    "contiguous_only",
    "create_op_support",
    "create_pattern_support",
    "debug_handles",
    "generate_partitions_from_list_of_nodes",
    "generate_pattern_op_partitions",
    "held_buffers",
    "integers_of_32_bits",
    "no_empty_tensors",
    "same_ranks",
    "static_sizes",
    "to_backend",
]
