"""The operators that the backend supports: one table for partitioner, lowering and README."""

from __future__ import annotations

from edgecore.sdk import (
    OperatorTable,
    at_most_dims,
    contiguous_only,
    integers_of_32_bits,
    no_empty_tensors,
    static_sizes,
)
from edgecore_qnn.operators import attention, elementwise, networks, quantized, shapes

MAX_RANK = 5


TABLE = OperatorTable(
    (*elementwise.ROWS, *shapes.ROWS, *networks.ROWS, *attention.ROWS, *quantized.ROWS),
    (
        static_sizes("symbolic sizes: a context binary has fixed sizes"),
        contiguous_only,
        at_most_dims(MAX_RANK),
        no_empty_tensors,
        integers_of_32_bits,
    ),
)
