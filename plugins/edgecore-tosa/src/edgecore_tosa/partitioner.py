"""The partitioner that all backends for TOSA devices share."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Protocol

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.sdk import CapabilityPartitioner, UnsupportedReason, is_dequantize, is_quantize
from edgecore_tosa.operators import table_of
from edgecore_tosa.options import TosaOptions

aten = torch.ops.aten

_SPLITS = frozenset(
    {operator.getitem, aten.split_copy.Tensor, aten.split_with_sizes_copy.default, aten.unbind_copy.int}
)


class AdditionalCheck(Protocol):
    """A user's check of nodes, such as an `OperatorSupportBase` of `torch.fx`."""

    def is_node_supported(self, submodules: dict[str, object], node: Node) -> bool:
        """Return False for a node that must not be delegated; `submodules` is empty."""


class TosaPartitioner(CapabilityPartitioner):
    """The partitioner of TOSA devices: it tags the fx nodes that the operator table of the target supports.

    A partition that only moves data or changes quantization parameters is not delegated.

    Args:
        backend_id: The id of the backend.
        options: The options of the backend.
        additional_checks: Further checks that a call must pass.
    """

    def __init__(
        self, backend_id: str, options: TosaOptions, additional_checks: Sequence[AdditionalCheck] | None = None
    ) -> None:
        table = table_of(options.spec)
        self._of_table = table.partitioner(backend_id, operators=options.operators)
        self._checks = tuple(additional_checks or ())
        super().__init__(
            backend_id,
            self._reasons,
            compile_specs=options.to_specs(),
            ops_to_not_decompose=table.ops_to_not_decompose,
            preserve=table.preserve,
            min_partition_size=options.min_operators,
            inside_only=table.inside_only,
        )

    def is_operator(self, node: Node) -> bool:
        """Return True if an fx node computes; False if it splits values or only changes quantization parameters."""
        if node.target in _SPLITS or is_quantize(node) or is_dequantize(node):
            return False
        return super().is_operator(node)

    def _reasons(self, program: ExportedProgram) -> UnsupportedReason:
        of_table = self._of_table.unsupported_reasons(program)

        def reason(node: Node) -> str | None:
            refused = (check for check in self._checks if not check.is_node_supported({}, node))
            return of_table(node) or next((f"refused by the check {type(check).__name__}" for check in refused), None)

        return reason
