"""Failures of backends: a warning and a line in the report, or an error if the user requires the backend."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

from torch.fx import Node

from edgecore.errors import CompileError, FallbackWarning
from edgecore.ir.failures import failing_node, text_of
from edgecore.ir.graph import describe
from edgecore.stability import level_of_caller

_MAX_NODES = 5
"""Largest number of nodes that a message names if the node at fault is unknown."""


@dataclass(frozen=True)
class Failure:
    """An exception in a backend.

    Attributes:
        backend: The backend's id, or the class of its partitioner.
        sentence: The error message: the backend, the task that failed, the nodes and the exception.
        operators: The number of operators that are not delegated because of the failure.
    """

    backend: str
    sentence: str
    operators: int


@dataclass
class PartitionDiagnostics:
    """The reasons why nodes are not delegated, and why backends do not keep the state of mutable buffers.

    Attributes:
        by_node: Node name -> [(backend id, reason)].
        by_buffer: Qualified name of a mutable buffer -> [(backend id, reason why the backend does not keep its state)].
        failures: The failures of backends.
    """

    by_node: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    by_buffer: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    def add(self, node: str, backend_id: str, reason: str) -> None:
        """Add the reason why a node was not delegated to a backend."""
        self.by_node.setdefault(node, []).append((backend_id, reason))

    def add_buffer(self, name: str, backend_id: str, reason: str) -> None:
        """Add the reason why a backend does not keep the state of a mutable buffer."""
        self.by_buffer.setdefault(name, []).append((backend_id, reason))

    def fall_back(
        self, backend: str, task: str, nodes: Sequence[Node], error: Exception, required: bool = False
    ) -> None:
        """Record that a backend failed and that `nodes` are therefore not delegated to it; issue a warning.

        Args:
            backend: The id of the backend, or the class name of its partitioner.
            task: The task as an infinitive with its object, such as `to compile a partition of 3 operators`.
            nodes: All nodes that are not delegated to the backend because of this failure.
            error: The exception.
            required: True if the user requires this backend, so that other backends or kernels must not replace it.

        Raises:
            CompileError: The backend is `required`.
        """
        sentence = self._fail(backend, task, nodes, error, required)
        for affected in nodes:
            self.add(affected.name, backend, f"the backend failed: {text_of(error)}")
        self.failures.append(Failure(backend, sentence, len(operator_calls(nodes))))
        _warn(sentence, "these operators run on the next backend or on edgecore's kernels instead, which may be slow")

    def refuse(
        self, backend: str, buffers: Sequence[str], nodes: Sequence[Node], error: Exception, required: bool = False
    ) -> None:
        """Record that a backend failed on a partition with mutable buffers and does not get these buffers; warn.

        Args:
            backend: The id of the backend.
            buffers: The qualified names of the buffers.
            nodes: The nodes of the partition. The backend may still receive them, without the buffers.
            error: The exception.
            required: True if the user requires this backend.

        Raises:
            CompileError: The backend is `required`.
        """
        task = f"to compile a partition of {counted(nodes)} that holds {', '.join(buffers)}"
        sentence = self._fail(backend, task, nodes, error, required)
        self.failures.append(Failure(backend, sentence, 0))
        _warn(
            sentence, "these mutable buffers stay outside of the backend, and every run copies them, which may be slow"
        )

    def leave_unlinked(self, backend: str, count: int, error: Exception, required: bool = False) -> None:
        """Record that a backend failed to link its delegates, which therefore stay unlinked; issue a warning.

        Args:
            backend: The id of the backend.
            count: The number of delegates.
            error: The exception.
            required: True if the user requires this backend.

        Raises:
            CompileError: The backend is `required`.
        """
        sentence = self._fail(backend, f"to link {count} delegates", (), error, required)
        self.failures.append(Failure(backend, sentence, 0))
        _warn(sentence, "they run, but share no data, so that the file may be larger")

    @staticmethod
    def _fail(backend: str, task: str, nodes: Sequence[Node], error: Exception, required: bool) -> str:
        """Format the sentence about a failure; if the backend is required, raise it as a `CompileError`."""
        node = failing_node(error)
        location = describe(node) if node is not None else ", ".join(map(describe, nodes[:_MAX_NODES]))
        location += " ..." if node is None and len(nodes) > _MAX_NODES else ""
        sentence = f"{backend} failed {task}{f', at {location}' if location else ''}: {text_of(error)}"
        if required:
            raise CompileError(sentence) from error
        return sentence


def _warn(sentence: str, outcome: str) -> None:
    """Issue a warning that points to the line of the user's code."""
    advice = "Please report it to the authors of the backend; its required=True makes this an error"
    warnings.warn(f"{sentence}; {outcome}. {advice}", category=FallbackWarning, stacklevel=level_of_caller())


def operator_calls(nodes: Sequence[Node]) -> list[Node]:
    """List the nodes that count as operators: all but `getitem`."""
    return [node for node in nodes if node.target is not operator.getitem]


def counted(nodes: Sequence[Node]) -> str:
    """Format the number of operators: `1 operator`, `3 operators`."""
    count = len(operator_calls(nodes))
    return "1 operator" if count == 1 else f"{count} operators"
