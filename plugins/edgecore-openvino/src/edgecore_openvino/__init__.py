"""The OpenVINO backend: Intel CPUs, GPUs and NPUs.

Loading a `.pte` imports this module, so it must import quickly: it imports neither torch nor openvino.
"""

from __future__ import annotations

from edgecore_openvino.backend import edgecore_backends as edgecore_backends

executorch_modules = {
    "executorch.backends.openvino.partitioner": {
        "OpenvinoPartitioner": "edgecore_openvino.executorch:openvino_partitioner",
    },
    "executorch.backends.openvino.quantizer": {
        "OpenVINOQuantizer": "edgecore_openvino.quantizer:OpenvinoQuantizer",
    },
    "executorch.backends.openvino.quantizer.quantizer": {
        "OpenVINOQuantizer": "edgecore_openvino.quantizer:OpenvinoQuantizer",
    },
}
"""Maps ExecuTorch's names to their counterparts in edgecore, for `python -m edgecore.executorch`."""
