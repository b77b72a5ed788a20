"""The uses of edgecore-tosa: the operators of a specification, and the TOSA graph of a partition."""

from __future__ import annotations

from torch.export import ExportedProgram

from edgecore_tosa.graph import Graph
from edgecore_tosa.lowering import lower
from edgecore_tosa.operators import table_of
from edgecore_tosa.operators.table import TosaTable
from edgecore_tosa.spec import TosaSpec

DEFAULT_SPEC = "TOSA-1.0+INT+FP+int16+int4"


def operator_table(spec: str) -> TosaTable:
    """Return the table of operators for a specification."""
    return table_of(TosaSpec.parse(spec))


def lower_to_tosa(program: ExportedProgram, spec: str) -> Graph:
    """Return the TOSA graph of one partition."""
    return lower(program, TosaSpec.parse(spec))
