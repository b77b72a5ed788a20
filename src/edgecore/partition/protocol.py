"""The partitioner protocol: who runs which node, and why not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch.export import ExportedProgram

from edgecore.plugin import CompileSpec

TAG = "delegation_tag"
"""Key in `node.meta` that a partitioner sets."""


@dataclass(frozen=True)
class DelegationSpec:
    """The backend that a tag stands for, and the compile specs of its partitions."""

    backend_id: str
    compile_specs: tuple[CompileSpec, ...] = ()


@dataclass(frozen=True)
class UnsupportedNode:
    """Why a backend left a node outside: a sentence fragment such as `padding mode reflect`.

    `error`: what its check raised instead of giving a reason.
    """

    node: str
    reason: str
    error: Exception | None = None


@dataclass
class PartitionResult:
    """The tagged program, what each tag means, and a reason for every node that was left outside."""

    tagged_exported_program: ExportedProgram
    partition_tags: Mapping[str, DelegationSpec]
    unsupported_nodes: Sequence[UnsupportedNode] = ()


class Partitioner(Protocol):
    """Chooses nodes for a backend. It only tags (`node.meta["delegation_tag"]`): edgecore compares before and after."""

    def partition(self, exported_program: ExportedProgram) -> PartitionResult: ...

    def ops_to_not_decompose(
        self, exported_program: ExportedProgram
    ) -> tuple[Sequence[torch._ops.OpOverload], Callable[[torch.fx.Node], bool] | None]:
        """Operators to keep whole where the filter (if any) says yes; what no backend takes is decomposed afterwards."""
        ...
