"""`ExecutorchBackendConfig` with ExecuTorch's defaults, which differ from edgecore's in memory planning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgecore.executorch.exir import config as edge_config
from edgecore.executorch.exir.memory import MemoryPlanningPass
from edgecore.memory import MemoryPlanningPass as EdgecoreMemoryPlanningPass


@dataclass(frozen=True)
class ExecutorchBackendConfig(edge_config.ExecutorchBackendConfig):
    """Settings of `to_executorch` with ExecuTorch's defaults: memory is planned for inputs and outputs, too."""

    memory_planning_pass: EdgecoreMemoryPlanningPass | Mapping[str, EdgecoreMemoryPlanningPass] = field(
        default_factory=MemoryPlanningPass
    )
