"""The operators that stay whole because a backend asks not to decompose them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.graph import CALL_NUMBER, PARTS_OF, all_calls, calls, operator_name
from edgecore.ir.torch_compat import OpOverload
from edgecore.partition import TAG, PartitionDiagnostics, Partitioner
from edgecore.passes.decompose import Preserve


@dataclass(frozen=True)
class _Call:
    """A call that a backend wants undecomposed: its operator, and the number of the call in the user's program.

    Calls are numbered before lowering, so two lowerings of a program use equal numbers; names of nodes may differ.
    """

    number: int
    operator: OpOverload


class WholeOperators:
    """Decides which calls of one method stay whole, that is, are not decomposed, because a backend asks for them.

    A call that the first backend wants whole stays whole. A call that only a later backend wants whole is decomposed if
    earlier backends take all its parts, because they must not lose operators to a backend of lower priority. The parts
    that backends take are known only after lowering. So a method is first lowered with all such calls decomposed. If
    the earlier backends do not take all parts of a call, the method is lowered again with this call whole:

        lowered = lower(copy_of_program, whole.preserve_for)
        if whole.keep_untaken(lowered):
            lowered = lower(program, whole.preserve_for)

    Args:
        partitioners: The partitioners, by priority.
        preserved: Receives all operators that partitioners want whole, so that the verifier allows them.
        diagnostics: Receives the failures of partitioners. A call about which a partitioner fails is decomposed.
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
        self._decomposed: dict[_Call, int] = {}  # call -> priority of the first backend that wants it undecomposed
        self._kept: set[_Call] = set()

    def preserve_for(self, program: ExportedProgram) -> Preserve:
        """Return a predicate over the nodes of `program` that is True for a call that must not be decomposed."""
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
        """Let the next lowering keep each call whole, unless earlier backends take all parts of its decomposition.

        Args:
            program: The lowered method. All partitioners but the last are asked which nodes they take.

        Returns:
            True if there are calls to keep.
        """
        takers: dict[Node, int] = {}  # node -> priority of the first backend that takes it
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
        """Return a function that maps a node to the priority, from 0, of the first backend that wants it whole."""
        wishes: dict[OpOverload, list[tuple[int, Preserve]]] = {}
        for priority, partitioner in enumerate(self._partitioners):
            answer = getattr(partitioner, "ops_to_not_decompose", None)  # a partitioner need not have this method
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
        if (name, str(error)) not in self._failed:  # issue one warning for all nodes with the same error
            self._failed.add((name, str(error)))
            self._diagnostics.fall_back(name, task, [], error, partitioner in self._required)


def _taken(partitioner: Partitioner, program: ExportedProgram) -> list[Node]:
    """List the nodes that a partitioner tags; none if it fails, because the delegation step will report the failure."""
    try:
        partitioner.partition(program)
    except Exception:
        pass
    return [node for node in program.graph.nodes if node.meta.pop(TAG, None) is not None]
