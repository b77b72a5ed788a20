"""`ExecutorchBackendConfig` with ExecuTorch's defaults, which differ from edgecore's in memory planning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgecore import pipeline
from edgecore.compat.memory import MemoryPlanningPass
from edgecore.memory import MemoryPlanningPass as EdgecoreMemoryPlanningPass


@dataclass(frozen=True)
class ExecutorchBackendConfig(pipeline.ExecutorchBackendConfig):
    """Settings of `to_executorch` as ExecuTorch has them: memory of inputs and outputs is planned unless one says no."""

    memory_planning_pass: EdgecoreMemoryPlanningPass | Mapping[str, EdgecoreMemoryPlanningPass] = field(
        default_factory=MemoryPlanningPass
    )
