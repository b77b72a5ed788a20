"""The partitioner: the operators of the table that the options allow."""

from __future__ import annotations

from edgecore.plugin import CompileSpec
from edgecore.sdk import CapabilityPartitioner
from edgecore_hello.operators import TABLE
from edgecore_hello.options import HelloOptions

FUSE_RELU = CompileSpec("fuse_relu", b"\x01")


def make_partitioner(options: HelloOptions) -> CapabilityPartitioner:
    """Create the partitioner for the options of a compilation."""
    return TABLE.partitioner(
        "HelloBackend",
        compile_specs=[FUSE_RELU] if options.fuse_relu else [],
        operators=options.operators,
        min_partition_size=options.min_operators,
    )
