"""The protocol of partitioners: a partitioner tags nodes for a backend and gives reasons for the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch.export import ExportedProgram

from edgecore.plugin import CompileSpec

TAG = "delegation_tag"
"""The key in `node.meta` that a partitioner sets."""


@dataclass(frozen=True)
class DelegationSpec:
    """The backend that compiles the partition of a tag, and the compile specs that it gets."""

    backend_id: str
    compile_specs: tuple[CompileSpec, ...] = ()


@dataclass(frozen=True)
class UnsupportedNode:
    """A node that is not delegated, and the reason.

    Attributes:
        node: The name of the node.
        reason: A sentence fragment such as `padding mode reflect`.
        error: The exception that the backend's check raised in place of a reason, if any.
    """

    node: str
    reason: str
    error: Exception | None = None


@dataclass
class PartitionResult:
    """The tagged program, the meaning of each tag, and the reason for each node that has no tag."""

    tagged_exported_program: ExportedProgram
    partition_tags: Mapping[str, DelegationSpec]
    unsupported_nodes: Sequence[UnsupportedNode] = ()


class Partitioner(Protocol):
    """The interface of partitioners, which choose nodes for a backend.

    A partitioner only sets `node.meta["delegation_tag"]`. edgecore raises an error if it changes the graph.
    """

    def partition(self, exported_program: ExportedProgram) -> PartitionResult: ...

    def ops_to_not_decompose(
        self, exported_program: ExportedProgram
    ) -> tuple[Sequence[torch._ops.OpOverload], Callable[[torch.fx.Node], bool] | None]:
        """Return operators that must not be decomposed before partitioning, and a function that selects calls of these.

        The function returns True for a call that must stay; None in its place means that all calls stay. A call that
        stayed but is not delegated is decomposed after partitioning.
        """
        ...
