"""Choose the operators that Core ML runs, by the operator table and the user's options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch.export import ExportedProgram

from edgecore.errors import CompileError
from edgecore.sdk import CapabilityPartitioner, PartitionResult, UnsupportedReason, describe
from edgecore_coreml.operators import TABLE


class CoreMLPartitioner:
    """The partitioner of the operator table, which also applies the options to skip operators or to require them all.

    Args:
        inner: The partitioner of the operator table.
        skipped: Names of operators that are not delegated, such as `add` or `aten.add.Tensor`.
        lower_full_graph: Raise an error if an operator is not delegated.
        constants_as_inputs: Weights and other constants are inputs of the delegates.
    """

    def __init__(
        self,
        inner: CapabilityPartitioner,
        skipped: Sequence[str],
        *,
        lower_full_graph: bool = False,
        constants_as_inputs: bool = False,
    ) -> None:
        inner.spec = replace(inner.spec, constants_as_inputs=constants_as_inputs)
        self._inner, self._skipped, self._lower_full_graph = inner, frozenset(skipped), lower_full_graph
        self._reasons = inner.unsupported_reasons
        inner.unsupported_reasons = self._with_skipped

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag the supported nodes of a program.

        Raises:
            CompileError: A node is not supported, although `lower_full_graph` is set.
        """
        result = self._inner.partition(exported_program)
        if self._lower_full_graph and result.unsupported_nodes:
            first = result.unsupported_nodes[0]
            targets = {node.name: describe(node) for node in exported_program.graph.nodes if node.op == "call_function"}
            raise CompileError(
                f"lower_full_graph=True, and Core ML does not get {len(result.unsupported_nodes)} operators; the first "
                f"is {targets.get(first.node, first.node)}: {first.reason}"
            )
        return result

    def ops_to_not_decompose(self, exported_program: ExportedProgram) -> Any:
        """Return the operators that Core ML supports undecomposed, and a function that tells which calls to keep."""
        operators, selects = self._inner.ops_to_not_decompose(exported_program)
        return [operator for operator in operators if not self._is_skipped(operator)], selects

    def _is_skipped(self, target: Any) -> bool:
        row = TABLE.rows.get(target)
        return row is not None and not self._skipped.isdisjoint(row.names)

    def _with_skipped(self, program: ExportedProgram) -> UnsupportedReason:
        reasons = self._reasons(program)
        return lambda node: "left out by an option" if self._is_skipped(node.target) else reasons(node)
