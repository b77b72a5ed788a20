"""The compile pipeline: lower exported programs, delegate partitions, make the file, report what is delegated."""

from edgecore.pipeline.bundled import (
    BundledProgram,
    MethodTestCase,
    MethodTestSuite,
    deserialize_from_flatbuffer_to_bundled_program,
    serialize_from_bundled_program_to_flatbuffer,
)
from edgecore.pipeline.compile import CompiledProgram
from edgecore.pipeline.config import EdgeCompileConfig, ExecutorchBackendConfig
from edgecore.pipeline.executorch_program import ExecutorchProgramManager
from edgecore.pipeline.lower import to_edge, to_edge_transform_and_lower
from edgecore.pipeline.managers import EdgeProgramManager
from edgecore.pipeline.report import BufferRow, DelegationReport, ReportRow
from edgecore.pipeline.whole_program import WholeBackendModule, to_backend

__all__ = [
    "BufferRow", "BundledProgram", "CompiledProgram", "DelegationReport", "EdgeCompileConfig", "EdgeProgramManager",
    "ExecutorchBackendConfig", "ExecutorchProgramManager", "MethodTestCase", "MethodTestSuite", "ReportRow",
    "WholeBackendModule", "deserialize_from_flatbuffer_to_bundled_program",
    "serialize_from_bundled_program_to_flatbuffer", "to_backend", "to_edge", "to_edge_transform_and_lower",
]  # fmt: skip
