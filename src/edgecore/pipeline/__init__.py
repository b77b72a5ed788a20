"""The compile pipeline: lower exported programs, delegate partitions, make the file, and report the delegation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgecore.stability import public_names

if TYPE_CHECKING:
    from edgecore.executorch.exir.config import EdgeCompileConfig as EdgeCompileConfig
    from edgecore.executorch.exir.config import ExecutorchBackendConfig as ExecutorchBackendConfig
    from edgecore.executorch.exir.program import EdgeProgramManager as EdgeProgramManager
    from edgecore.executorch.exir.program import ExecutorchProgramManager as ExecutorchProgramManager
    from edgecore.executorch.exir.program import to_edge as to_edge
    from edgecore.executorch.exir.program import to_edge_transform_and_lower as to_edge_transform_and_lower
    from edgecore.pipeline.bundled import BundledProgram as BundledProgram
    from edgecore.pipeline.bundled import MethodTestCase as MethodTestCase
    from edgecore.pipeline.bundled import MethodTestSuite as MethodTestSuite
    from edgecore.pipeline.bundled import (
        deserialize_from_flatbuffer_to_bundled_program as deserialize_from_flatbuffer_to_bundled_program,
    )
    from edgecore.pipeline.bundled import (
        serialize_from_bundled_program_to_flatbuffer as serialize_from_bundled_program_to_flatbuffer,
    )
    from edgecore.pipeline.compiled_program import CompiledProgram as CompiledProgram
    from edgecore.pipeline.finished_program import FinishedProgram as FinishedProgram
    from edgecore.pipeline.lowering import LoweredProgram as LoweredProgram
    from edgecore.pipeline.lowering import WholeBackendModule as WholeBackendModule
    from edgecore.pipeline.lowering import to_backend as to_backend
    from edgecore.pipeline.report import BufferRow as BufferRow
    from edgecore.pipeline.report import DelegationReport as DelegationReport
    from edgecore.pipeline.report import ReportRow as ReportRow

__all__, __getattr__ = public_names(
    "edgecore.pipeline",
    {
        "edgecore.executorch.exir.config": "EdgeCompileConfig ExecutorchBackendConfig",
        "edgecore.executorch.exir.program": (
            "EdgeProgramManager ExecutorchProgramManager to_edge to_edge_transform_and_lower"
        ),
        "edgecore.pipeline.bundled": (
            "BundledProgram MethodTestCase MethodTestSuite deserialize_from_flatbuffer_to_bundled_program "
            "serialize_from_bundled_program_to_flatbuffer"
        ),
        "edgecore.pipeline.compiled_program": "CompiledProgram",
        "edgecore.pipeline.finished_program": "FinishedProgram",
        "edgecore.pipeline.lowering": "LoweredProgram WholeBackendModule to_backend",
        "edgecore.pipeline.report": "BufferRow DelegationReport ReportRow",
    },
)
