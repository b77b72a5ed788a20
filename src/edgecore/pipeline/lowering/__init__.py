"""Lowering: from exported programs to edge programs with delegates, and from these to a finished program."""

from edgecore.pipeline.lowering.lower_programs import lower, lower_to_edge
from edgecore.pipeline.lowering.lowered_program import LoweredProgram
from edgecore.pipeline.lowering.methods import (
    PartitionerSpec,
    Programs,
    check_methods,
    partitioners_by_method,
    programs_by_method,
)
from edgecore.pipeline.lowering.options import FinishOptions, LowerOptions, TransformPasses, file_alignments
from edgecore.pipeline.lowering.pass_dump import PassDump
from edgecore.pipeline.lowering.whole_program import WholeBackendModule, to_backend

__all__ = [
    "FinishOptions",
    "LowerOptions",
    "LoweredProgram",
    "PartitionerSpec",
    "PassDump",
    "Programs",
    "TransformPasses",
    "WholeBackendModule",
    "check_methods",
    "file_alignments",
    "lower",
    "lower_to_edge",
    "partitioners_by_method",
    "programs_by_method",
    "to_backend",
]
