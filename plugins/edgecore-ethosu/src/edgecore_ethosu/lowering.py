"""What edgecore-ethosu uses of edgecore-tosa: the operators of a target, and the TOSA graph of a partition."""

from __future__ import annotations

from edgecore_tosa import TosaSpec, TosaTable, lower
from torch.export import ExportedProgram

from edgecore_ethosu.options import EthosUOptions
from edgecore_ethosu.targets import family

_EXTENSIONS = {"u55": "u55", "u65": "u55", "u85": "cf"}


def tosa_spec(options: EthosUOptions) -> TosaSpec:
    """Return version, profile and extensions of TOSA that Vela supports for the target."""
    return TosaSpec.parse(f"TOSA-1.0+INT+int16+int4+{_EXTENSIONS[family(options.target)]}")


def operator_table(options: EthosUOptions) -> TosaTable:
    """Return the table of operators for the target."""
    return TosaTable(tosa_spec(options))


def lower_to_tosa(program: ExportedProgram, options: EthosUOptions) -> bytes:
    """Return the TOSA graph of one partition, as a flatbuffer."""
    return bytes(lower(program, tosa_spec(options)).to_bytes())
