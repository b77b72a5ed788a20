"""The QNN backend: Qualcomm's Hexagon NPU. Loading a file imports this module, so it imports no torch and no onnx."""

from __future__ import annotations

from edgecore_qnn.backend import edgecore_backends as edgecore_backends

executorch_modules = {
    "executorch.backends.qualcomm.partition.qnn_partitioner": {
        "QnnPartitioner": "edgecore_qnn.executorch:QnnPartitioner",
    },
    "executorch.backends.qualcomm.quantizer.quantizer": {
        "QnnQuantizer": "edgecore_qnn.quantizer:QnnQuantizer",
    },
    "executorch.backends.qualcomm.serialization.qc_schema": {
        "QcomChipset": "edgecore_qnn.executorch:QcomChipset",
    },
    "executorch.backends.qualcomm.utils.utils": {
        "QcomChipset": "edgecore_qnn.executorch:QcomChipset",
        "generate_htp_compiler_spec": "edgecore_qnn.executorch:generate_htp_compiler_spec",
        "generate_qnn_executorch_compiler_spec": "edgecore_qnn.executorch:generate_qnn_executorch_compiler_spec",
        "to_edge_transform_and_lower_to_qnn": "edgecore_qnn.executorch:to_edge_transform_and_lower_to_qnn",
    },
}
"""Maps ExecuTorch's names to their counterparts in edgecore, for `python -m edgecore.executorch`."""
