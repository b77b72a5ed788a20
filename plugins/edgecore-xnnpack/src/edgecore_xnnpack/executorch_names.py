"""Functions that scripts of ExecuTorch use with the XNNPACK backend, by their names there."""

from __future__ import annotations

import edgecore
from edgecore_xnnpack.partition_config import ConfigPrecisionType
from edgecore_xnnpack.partitioner import XnnpackPartitioner


class XnnpackDynamicallyQuantizedPartitioner(XnnpackPartitioner):
    """Delegates layers whose inputs are quantized at run time only."""

    def __init__(self) -> None:
        """Make the partitioner; it has no options."""
        super().__init__(config_precisions=ConfigPrecisionType.DYNAMIC_QUANT)


class XnnpackFloatingPointPartitioner(XnnpackPartitioner):
    """Delegates operators in floating point only."""

    def __init__(self) -> None:
        """Make the partitioner; it has no options."""
        super().__init__(config_precisions=ConfigPrecisionType.FP32)


def get_xnnpack_edge_compile_config(skip_dim_order: bool = False) -> edgecore.EdgeCompileConfig:
    """Return the settings with which a program is lowered for XNNPACK: edgecore's own. The argument has no effect."""
    return edgecore.EdgeCompileConfig(_skip_dim_order=skip_dim_order)
