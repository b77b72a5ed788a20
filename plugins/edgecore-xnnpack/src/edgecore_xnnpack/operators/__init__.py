"""ATen operators on XNNPACK: one table for the partitioner, the serializer and the documentation."""

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
from edgecore_xnnpack.operators.table import TABLE, make_check

__all__ = [
    "TABLE",
    "activation",
    "attention",
    "comparison",
    "convolution",
    "elementwise",
    "indexing",
    "make_check",
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
