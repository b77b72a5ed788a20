"""Failures of backends: a warning and a line in the report, or an error if the backend is required."""

from __future__ import annotations

import operator
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch.fx import Node

from edgecore.errors import CompileError, FallbackWarning
from edgecore.ir.failures import failing_node, text_of
from edgecore.ir.graph import describe

_MAX_NODES = 5
"""Maximum number of nodes that an error message names if the node at fault is not known."""

_PACKAGE = str(Path(__file__).parents[1])


@dataclass(frozen=True)
class Failure:
    """An exception in a backend.

    Attributes:
        backend: The backend's id, or the class of its partitioner.
        sentence: The error message, with the backend, what it failed to do, the nodes and the exception.
        operators: The number of operators that are not delegated because of it.
    """

    backend: str
    sentence: str
    operators: int


@dataclass
class PartitionDiagnostics:
    """The reasons why nodes are not delegated.

    Attributes:
        by_node: Node name -> [(backend id, reason)].
        failures: The failures of backends.
    """

    by_node: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    def add(self, node: str, backend_id: str, reason: str) -> None:
        """Add the reason why a node was not delegated to a backend."""
        self.by_node.setdefault(node, []).append((backend_id, reason))

    def fall_back(
        self, backend: str, task: str, nodes: Sequence[Node], error: Exception, required: bool = False
    ) -> None:
        """Record that a backend failed, so that `nodes` are not delegated to it, and warn.

        Args:
            backend: Its id, or the class of its partitioner.
            task: The task as an infinitive with its object, such as `to compile a partition of 3 operators`.
            nodes: All nodes that the backend does not get because of this failure.
            error: The exception.
            required: The user allows neither other backends nor kernels in place of this backend.

        Raises:
            CompileError: The backend is `required`.
        """
        node = failing_node(error)
        location = describe(node) if node is not None else ", ".join(map(describe, nodes[:_MAX_NODES]))
        location += " ..." if node is None and len(nodes) > _MAX_NODES else ""
        sentence = f"{backend} failed {task}{f', at {location}' if location else ''}: {text_of(error)}"
        if required:
            raise CompileError(sentence) from error
        for affected in nodes:
            self.add(affected.name, backend, f"the backend failed: {text_of(error)}")
        self.failures.append(Failure(backend, sentence, len(operator_calls(nodes))))
        warnings.warn(
            f"{sentence}; these operators run on the next backend or on edgecore's kernels instead, which may be slow. "
            "Please report it to the authors of the backend; its required=True makes this an error",
            category=FallbackWarning,
            stacklevel=_level_of_caller(),
        )


def operator_calls(nodes: Sequence[Node]) -> list[Node]:
    """List the nodes that call operators: all but `getitem`."""
    return [node for node in nodes if node.target is not operator.getitem]


def counted(nodes: Sequence[Node]) -> str:
    """Return the number of operators in words: `1 operator`, `3 operators`."""
    count = len(operator_calls(nodes))
    return "1 operator" if count == 1 else f"{count} operators"


def _level_of_caller() -> int:
    """Return the `stacklevel` with which the caller's `warnings.warn` shows the line of the user's code.

    This line is in the innermost frame outside edgecore.
    """
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level
