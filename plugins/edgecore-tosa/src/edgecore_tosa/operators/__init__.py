"""List the rows of the operator table; each row names the function that lowers the operator to TOSA."""

from __future__ import annotations

from edgecore_tosa.builder.operator_table import Row, TosaTable
from edgecore_tosa.operators import (
    activation,
    average,
    comparison,
    convolution,
    elementwise,
    gather,
    masks,
    matmul,
    movement,
    norms,
    parts,
    pooling,
    quantize,
    reductions,
    resize,
    softmax,
)
from edgecore_tosa.spec import TosaSpec

ROWS: tuple[Row, ...] = (
    *activation.ROWS,
    *average.ROWS,
    *comparison.ROWS,
    *convolution.ROWS,
    *elementwise.ROWS,
    *gather.ROWS,
    *masks.ROWS,
    *matmul.ROWS,
    *movement.ROWS,
    *norms.ROWS,
    *parts.ROWS,
    *pooling.ROWS,
    *quantize.ROWS,
    *reductions.ROWS,
    *resize.ROWS,
    *softmax.ROWS,
)


def table_of(spec: TosaSpec) -> TosaTable:
    """Return the operator table of a TOSA specification."""
    return TosaTable(ROWS, spec)
