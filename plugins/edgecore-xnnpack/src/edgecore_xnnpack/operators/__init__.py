"""The operators that XNNPACK supports: one table for the partitioner, the lowering and the documentation."""

from edgecore_xnnpack.operators import (
    activation,
    attention,
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
from edgecore_xnnpack.operators.table import TABLE

__all__ = [
    "TABLE",
    "activation",
    "attention",
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
