"""The compile pipeline: lower exported programs, delegate partitions, make the file, report what is delegated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgecore.pipeline.bundled import (
    BundledProgram,
    MethodTestCase,
    MethodTestSuite,
    deserialize_from_flatbuffer_to_bundled_program,
    serialize_from_bundled_program_to_flatbuffer,
)
from edgecore.pipeline.compile import CompiledProgram
from edgecore.pipeline.finished_program import FinishedProgram
from edgecore.pipeline.lowering import LoweredProgram, WholeBackendModule, to_backend
from edgecore.pipeline.report import BufferRow, DelegationReport, ReportRow
from edgecore.stability import lazy_names

if TYPE_CHECKING:
    from edgecore.executorch.exir.config import EdgeCompileConfig, ExecutorchBackendConfig
    from edgecore.executorch.exir.program import (
        EdgeProgramManager,
        ExecutorchProgramManager,
        to_edge,
        to_edge_transform_and_lower,
    )

__all__ = [
    "BufferRow",
    "BundledProgram",
    "CompiledProgram",
    "DelegationReport",
    "EdgeCompileConfig",
    "EdgeProgramManager",
    "ExecutorchBackendConfig",
    "ExecutorchProgramManager",
    "FinishedProgram",
    "LoweredProgram",
    "MethodTestCase",
    "MethodTestSuite",
    "ReportRow",
    "WholeBackendModule",
    "deserialize_from_flatbuffer_to_bundled_program",
    "serialize_from_bundled_program_to_flatbuffer",
    "to_backend",
    "to_edge",
    "to_edge_transform_and_lower",
]

_CONFIG, _PROGRAM = "edgecore.executorch.exir.config", "edgecore.executorch.exir.program"

__getattr__ = lazy_names(
    "edgecore.pipeline",
    {
        "EdgeCompileConfig": _CONFIG,
        "EdgeProgramManager": _PROGRAM,
        "ExecutorchBackendConfig": _CONFIG,
        "ExecutorchProgramManager": _PROGRAM,
        "to_edge": _PROGRAM,
        "to_edge_transform_and_lower": _PROGRAM,
    },
)
