"""The operators that stay whole, instead of being decomposed, for the backends that ask for it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.graph import CALL_NUMBER, PARTS_OF, all_calls, calls, operator_name
from edgecore.partition import TAG, PartitionDiagnostics, Partitioner
from edgecore.passes.decompose import Preserve


@dataclass(frozen=True)
class _Call:
    """A call that some backend wants whole: its operator, and the number of the user's call that it is a part of.

    Two lowerings of copies of one program number calls in the same way, while names of new nodes may differ.
    """

    number: int
    operator: OpOverload


class WholeOperators:
    """The calls of one method that stay whole for a backend.

    A call that the first backend wants whole stays whole. A call that only a later backend wants whole is decomposed if
    backends before it take all its parts, since it must not lose operators to a backend of lower priority. Which parts
    they take is known only after lowering. So a method is lowered with all such calls decomposed, and, if some part of
    one is not taken, lowered again with that call whole:

        lowered = lower(copy_of_program, whole.preserve_for)
        if whole.keep_untaken(lowered):
            lowered = lower(program, whole.preserve_for)

    Args:
        partitioners: The partitioners, by priority.
        preserved: Collects all operators that partitioners want whole, so that the verifier allows them.
        diagnostics: Collects the failures of partitioners: a call that one fails to answer about is decomposed.
        required: The partitioners whose failure is an error.
    """

    def __init__(
        self,
        partitioners: Sequence[Partitioner],
        preserved: set[OpOverload],
        diagnostics: PartitionDiagnostics,
        required: Collection[Partitioner],
    ) -> None:
        self._partitioners = partitioners
        self._preserved = preserved
        self._diagnostics = diagnostics
        self._required = required
        self._failed: set[tuple[str, str]] = set()
        self._decomposed: dict[_Call, int] = {}  # -> the priority of the first backend that wants the call whole
        self._kept: set[_Call] = set()

    def preserve_for(self, program: ExportedProgram) -> Preserve:
        """Return a predicate over the nodes of `program` that is True for a call that stays whole."""
        for number, node in enumerate(all_calls(program.graph_module)):
            node.meta.setdefault(CALL_NUMBER, number)
        first_wish = self._first_wish(program)

        def preserve(node: Node) -> bool:
            priority = first_wish(node)
            if not priority:
                return priority is not None
            assert isinstance(node.target, OpOverload)
            call = _Call(node.meta.get(CALL_NUMBER, -1), node.target)
            if call in self._kept:
                return True
            self._decomposed[call] = priority
            node.meta[PARTS_OF] = (*node.meta.get(PARTS_OF, ()), call)
            return False

        return preserve

    def keep_untaken(self, program: ExportedProgram) -> bool:
        """Keep whole, from now on, decomposed calls unless the backends before take all their parts.

        Args:
            program: The lowered method. Its partitioners, but for the last, are asked which nodes they take.

        Returns:
            True if there are such calls.
        """
        takers: dict[Node, int] = {}  # -> the priority of the first backend that takes the node
        for priority in range(max(self._decomposed.values(), default=0)):
            for node in _taken(self._partitioners[priority], program):
                takers.setdefault(node, priority)
        for node in calls(program.graph_module):
            for call in node.meta.pop(PARTS_OF, ()):
                last = len(self._partitioners)
                if node.target is not operator.getitem and takers.get(node, last) >= self._decomposed[call]:
                    self._kept.add(call)
        return bool(self._kept)

    def _first_wish(self, program: ExportedProgram) -> Callable[[Node], int | None]:
        """Return a function (node) -> the priority, from 0, of the first backend that wants the node whole, or None."""
        wishes: dict[OpOverload, list[tuple[int, Preserve]]] = {}
        for priority, partitioner in enumerate(self._partitioners):
            answer = getattr(partitioner, "ops_to_not_decompose", None)  # a partitioner may define `partition` only
            try:
                operators, condition = answer(program) if answer is not None else ((), None)
            except Exception as error:
                self._fall_back(partitioner, "to list the operators that must not be decomposed", error)
                continue
            self._preserved.update(operators)
            for wanted in operators:
                wishes.setdefault(wanted, []).append((priority, condition or (lambda node: True)))

        def first_wish(node: Node) -> int | None:
            for priority, condition in wishes.get(node.target, []) if isinstance(node.target, OpOverload) else []:
                try:
                    if condition(node):
                        return priority
                except Exception as error:
                    task = f"to say whether to decompose {operator_name(node.target)}"
                    self._fall_back(self._partitioners[priority], task, error)
            return None

        return first_wish

    def _fall_back(self, partitioner: Partitioner, task: str, error: Exception) -> None:
        name = type(partitioner).__name__
        if (name, str(error)) not in self._failed:  # one warning for all nodes with the same error
            self._failed.add((name, str(error)))
            self._diagnostics.fall_back(name, task, [], error, partitioner in self._required)


def _taken(partitioner: Partitioner, program: ExportedProgram) -> list[Node]:
    """List the nodes that a partitioner tags; none if it fails, which delegation reports."""
    try:
        partitioner.partition(program)
    except Exception:
        pass
    return [node for node in program.graph.nodes if node.meta.pop(TAG, None) is not None]
