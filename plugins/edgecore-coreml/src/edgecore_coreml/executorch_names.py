"""Functions that scripts of ExecuTorch use with the Core ML backend."""

from __future__ import annotations

from typing import Any

from edgecore.sdk import Partitioner
from edgecore_coreml.compiler import CoreMLCompiler
from edgecore_coreml.options import CoreMLOptions


def coreml_partitioner(**options: Any) -> Partitioner:
    """Make the partitioner that ExecuTorch calls `CoreMLPartitioner`.

    Args:
        options: Options of the backend, of which several are arguments of ExecuTorch's class:
            `skip_ops_for_coreml_delegation`, `take_over_mutable_buffer`, `take_over_constant_data`, `lower_full_graph`.
            What `compile_specs` say there are options, too: `compute_unit`, `minimum_deployment_target`.
    """
    return CoreMLCompiler().partitioner(CoreMLOptions(**options), runtime="executorch-1.5")
