"""The operators that the lowering knows, with the function that writes each."""

from __future__ import annotations

from edgecore_tosa.operators import convolution, elementwise, movement, pooling, quantize
from edgecore_tosa.operators.table import Row, TosaTable
from edgecore_tosa.spec import TosaSpec

ROWS: tuple[Row, ...] = (*convolution.ROWS, *elementwise.ROWS, *movement.ROWS, *pooling.ROWS, *quantize.ROWS)


def table_of(spec: TosaSpec) -> TosaTable:
    """Return the operator table of a specification."""
    return TosaTable(ROWS, spec)
