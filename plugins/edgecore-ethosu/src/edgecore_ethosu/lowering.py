"""The uses of edgecore-tosa: the operators of a target, and the TOSA graph of a partition."""

from __future__ import annotations

from torch.export import ExportedProgram

from edgecore_ethosu.targets import family
from edgecore_tosa.graph import Graph
from edgecore_tosa.lowering import lower
from edgecore_tosa.operators import table_of
from edgecore_tosa.operators.table import TosaTable
from edgecore_tosa.spec import TosaSpec

_EXTENSIONS = {"u55": "u55", "u65": "u55", "u85": "cf"}


def tosa_spec(target: str) -> TosaSpec:
    """Return version, profile and extensions of TOSA that Vela supports for the target."""
    return TosaSpec.parse(f"TOSA-1.0+INT+int16+int4+{_EXTENSIONS[family(target)]}")


def operator_table(target: str) -> TosaTable:
    """Return the table of operators for the target."""
    return table_of(tosa_spec(target))


def lower_to_tosa(program: ExportedProgram, target: str) -> Graph:
    """Return the TOSA graph of one partition."""
    return lower(program, tosa_spec(target))
