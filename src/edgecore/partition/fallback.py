"""When a backend fails: a warning and a line in the report, and the operators run elsewhere; or an error, if it is required."""

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

NAMED = 5
"""Nodes that a sentence names where it is not known which one is to blame."""

_PACKAGE = str(Path(__file__).parents[1])


@dataclass(frozen=True)
class Failure:
    """An exception of a backend: a sentence about it, and how many operators run elsewhere because of it."""

    backend: str
    sentence: str
    operators: int


@dataclass
class PartitionDiagnostics:
    """Why each backend left a node outside: node name -> [(backend id, reason)]; and its failures."""

    by_node: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    def add(self, node: str, backend_id: str, reason: str) -> None:
        """Note one refusal."""
        self.by_node.setdefault(node, []).append((backend_id, reason))

    def fall_back(
        self, backend: str, task: str, nodes: Sequence[Node], error: Exception, required: bool = False
    ) -> None:
        """Note that a backend failed, which leaves `nodes` outside, and warn.

        Args:
            backend: Its id, or the class of its partitioner.
            task: The infinitive with its object, such as `to compile a partition of 3 operators`.
            nodes: All nodes that it does not get because of this.
            error: The exception.
            required: The user wants no other backend and no kernels.

        Raises:
            CompileError: It is `required`.
        """
        node = failing_node(error)
        place = describe(node) if node is not None else ", ".join(map(describe, nodes[:NAMED]))
        place += " ..." if node is None and len(nodes) > NAMED else ""
        sentence = f"{backend} failed {task}{f', at {place}' if place else ''}: {text_of(error)}"
        if required:
            raise CompileError(sentence) from error
        for one in nodes:
            self.add(one.name, backend, f"the backend failed: {text_of(error)}")
        self.failures.append(Failure(backend, sentence, len(working(nodes))))
        warnings.warn(
            f"{sentence}; these operators run on the next backend or on edgecore's kernels instead, which may be slow. "
            "Please report it to the authors of the backend; its required=True makes this an error",
            category=FallbackWarning,
            stacklevel=_level_of_caller(),
        )


def working(nodes: Sequence[Node]) -> list[Node]:
    """The nodes that are operator calls of their own."""
    return [node for node in nodes if node.target is not operator.getitem]


def counted(nodes: Sequence[Node]) -> str:
    """`1 operator`, `3 operators`."""
    count = len(working(nodes))
    return "1 operator" if count == 1 else f"{count} operators"


def _level_of_caller() -> int:
    """The `stacklevel`, for the function that calls this one, of the innermost frame that is not of edgecore: the user's."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level
