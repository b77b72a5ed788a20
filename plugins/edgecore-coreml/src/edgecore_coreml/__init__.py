"""The Core ML backend. Loading a `.pte` imports this module, so it must not import torch or other large packages."""

from __future__ import annotations

from edgecore.plugin import lazy_names
from edgecore_coreml.backend import edgecore_backends as edgecore_backends

__getattr__ = lazy_names("edgecore_coreml", {"CoreMLQuantizer": "edgecore_coreml.quantizer"})

executorch_modules = {
    "executorch.backends.apple.coreml.compiler": {
        "CoreMLBackend": "edgecore_coreml.executorch:CoreMLBackend",
    },
    "executorch.backends.apple.coreml.partition": {
        "CoreMLPartitioner": "edgecore_coreml.executorch:coreml_partitioner",
    },
    "executorch.backends.apple.coreml.partition.coreml_partitioner": {
        "CoreMLPartitioner": "edgecore_coreml.executorch:coreml_partitioner",
    },
    "executorch.backends.apple.coreml.quantizer": {
        "CoreMLQuantizer": "edgecore_coreml.quantizer:CoreMLQuantizer",
    },
}
"""Maps ExecuTorch's names to their counterparts in edgecore, for `python -m edgecore.executorch`."""
