"""The compile pipeline as a whole: lowering, the managers, the report, `compile`."""

from edgecore.pipeline.compile import CompiledProgram, compile_model
from edgecore.pipeline.lower import to_edge, to_edge_transform_and_lower
from edgecore.pipeline.managers import EdgeProgramManager, ExecutorchBackendConfig, ExecutorchProgramManager
from edgecore.pipeline.report import DelegationReport, ReportRow

__all__ = [
    "CompiledProgram", "DelegationReport", "EdgeProgramManager", "ExecutorchBackendConfig", "ExecutorchProgramManager",
    "ReportRow", "compile_model", "to_edge", "to_edge_transform_and_lower",
]  # fmt: skip
