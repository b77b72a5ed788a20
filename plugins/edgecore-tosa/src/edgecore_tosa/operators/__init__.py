"""The operators that the lowering knows, with the function that writes each."""

from __future__ import annotations

from dataclasses import replace

import torch

from edgecore_tosa.operators import activation, convolution, elementwise, movement, pooling, quantize, softmax
from edgecore_tosa.operators.table import Row, TosaTable
from edgecore_tosa.spec import TosaSpec

ROWS: tuple[Row, ...] = (
    *activation.ROWS,
    *convolution.ROWS,
    *elementwise.ROWS,
    *movement.ROWS,
    *pooling.ROWS,
    *quantize.ROWS,
    *softmax.ROWS,
)


def table_of(spec: TosaSpec) -> TosaTable:
    """Return the operator table of a specification. Quantized values are float32 in the program."""
    rows = ROWS if spec.floating else tuple(_without_float16(row) for row in ROWS)
    return TosaTable(rows, spec)


def _without_float16(row: Row) -> Row:
    return replace(row, dtypes=tuple(dtype for dtype in row.dtypes if dtype != torch.float16))
