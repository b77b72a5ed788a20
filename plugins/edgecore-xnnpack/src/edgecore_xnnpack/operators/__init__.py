"""The operators that XNNPACK supports.

Each module enters rows into one table (`operator_table.TABLE`), which the partitioner, the lowering and the
documentation read. A function that is decorated with `lowers` emits XNNPACK operations for calls of an operator; its
first argument `low` is the `Lowering`. A function whose name begins with `_check` returns why a call is not supported,
or None.
"""

from edgecore_xnnpack.operator_table import TABLE
from edgecore_xnnpack.operators import (
    activation,
    attention,
    cache,
    comparison,
    convolution,
    elementwise,
    indexing,
    matmul,
    normalization,
    pooling,
    quantized,
    recurrent,
    reduction,
    selection,
    shape,
    volumes,
)

__all__ = [
    "TABLE",
    "activation",
    "attention",
    "cache",
    "comparison",
    "convolution",
    "elementwise",
    "indexing",
    "matmul",
    "normalization",
    "pooling",
    "quantized",
    "recurrent",
    "reduction",
    "selection",
    "shape",
    "volumes",
]
