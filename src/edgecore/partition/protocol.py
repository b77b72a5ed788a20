"""The protocol of partitioners: a partitioner tags nodes for a backend, and says why others are not supported."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.errors import CompileError
from edgecore.ir.torch_compat import OpOverload
from edgecore.plugin import CompileSpec

TAG = "delegation_tag"
"""The key in `node.meta` whose value, set by a partitioner, names the partition of the node."""

REFUSED = "refused_claim"
"""The key in the `meta` of a mutable buffer's placeholder by which edgecore forbids the backend to claim the buffer.

The value is the reason as a sentence fragment.
"""

UnsupportedReason = Callable[[Node], "str | None"]
"""A function that returns the reason why a backend does not support a node, or None for a supported node."""


class LayoutReason(str):
    """A reason that concerns only the dim order of a value, such as channels last.

    If a partitioner returns such a reason, edgecore makes all values contiguous, with copies at the border of the
    program, and calls the partitioner again.
    """

    __slots__ = ()


@dataclass(frozen=True)
class DelegationSpec:
    """The backend to which the nodes with one tag are delegated, and the compile specs of this partition.

    Attributes:
        backend_id: The backend's id.
        compile_specs: The compile specs.
        constants_as_inputs: True if the constants that the partition reads, such as weights, stay in the program and
            become inputs of the delegate; False if the backend stores all constants; or the names of the placeholders
            that stay.
    """

    backend_id: str
    compile_specs: tuple[CompileSpec, ...] = ()
    constants_as_inputs: bool | frozenset[str] = False


@dataclass(frozen=True)
class UnsupportedNode:
    """A node that is not delegated, and the reason.

    Attributes:
        node: The name of the node.
        reason: A sentence fragment such as `padding mode reflect`.
        error: The exception that the backend's check raised instead of returning a reason, if any.
    """

    node: str
    reason: str
    error: Exception | None = None


@dataclass
class PartitionResult:
    """The result of a partitioner for one program.

    Attributes:
        tagged_exported_program: The program, with tags.
        partition_tags: Tag -> backend and compile specs of its partition.
        unsupported_nodes: The reason for each node that has no tag.
        claimed_buffers: Qualified names of the mutable buffers whose state the backend wants to keep, such as a KV
            cache; see `claimable_buffers`.
        copied_nodes: Name of a tagged node -> the tags of further partitions that read the node; each partition
            receives its own copy.
        warning: A warning about the user's options for this program; "" if there is none. The user is warned once, if
            the results for all methods, branches and loop bodies have a warning.
    """

    tagged_exported_program: ExportedProgram
    partition_tags: Mapping[str, DelegationSpec]
    unsupported_nodes: Sequence[UnsupportedNode] = ()
    claimed_buffers: Collection[str] = ()
    copied_nodes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    warning: str = ""


class Partitioner(Protocol):
    """The interface of partitioners, which choose nodes for a backend.

    A partitioner only sets `node.meta["delegation_tag"]`. If a partitioner changes the graph, edgecore raises an error.
    """

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag nodes, and claim mutable buffers.

        edgecore may refuse a claim, for example because another method uses the buffer outside of the backend. Then
        edgecore removes the tags, marks the placeholder of the buffer and calls this method again, and
        `claimable_buffers` omits the buffer. So tag a node that updates a buffer only if the buffer can be claimed.
        """
        ...

    def ops_to_not_decompose(
        self, exported_program: ExportedProgram
    ) -> tuple[Sequence[OpOverload], Callable[[torch.fx.Node], bool] | None]:
        """Return the operators that must not be decomposed before partitioning, and a function that selects calls.

        The function returns True for a call that must stay; None instead of the function means that all calls stay. A
        call that stayed but was not delegated is decomposed after partitioning.

        By default all operators are decomposed. A partitioner that does not derive from this class may omit this
        method.
        """
        return (), None


def check_partitioner(partitioner: object) -> None:
    """Raise a `CompileError` for anything but a partitioner, such as a list of partitioners, or a class."""
    if isinstance(partitioner, type):
        raise CompileError(f"the class {partitioner.__name__} is not a partitioner; call it to make one")
    if isinstance(partitioner, str) or not hasattr(partitioner, "partition"):
        raise CompileError(
            f"an object of type {type(partitioner).__name__} is not a partitioner; "
            "give one object with a method `partition`"
        )
