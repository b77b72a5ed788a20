"""ATen operators on XNNPACK: one table for the partitioner, the serializer and the documentation."""

from edgecore_xnnpack.operators import (
    attention,
    convolution,
    elementwise,
    matmul,
    normalization,
    pooling,
    quantized,
    recurrent,
    reduction,
    shape,
)
from edgecore_xnnpack.operators.table import TABLE, make_check

__all__ = [
    "TABLE",
    "attention",
    "convolution",
    "elementwise",
    "make_check",
    "matmul",
    "normalization",
    "pooling",
    "quantized",
    "recurrent",
    "reduction",
    "shape",
]
