"""The VGF backend. Loading a `.pte` imports this module, so it must not import torch, numpy or Arm's packages."""

from __future__ import annotations

from edgecore.plugin import lazy_names
from edgecore_vgf.backend import edgecore_backends as edgecore_backends

_NAMES = ("VgfCompileSpec", "VgfPartitioner", "VgfQuantizer")

__getattr__ = lazy_names("edgecore_vgf", dict.fromkeys(_NAMES, "edgecore_vgf.executorch"))

executorch_modules = {
    "executorch.backends.arm.vgf": {
        "VgfCompileSpec": "edgecore_vgf.executorch:VgfCompileSpec",
        "VgfPartitioner": "edgecore_vgf.executorch:VgfPartitioner",
    },
    "executorch.backends.arm.quantizer": {
        "VgfQuantizer": "edgecore_vgf.executorch:VgfQuantizer",
        "get_symmetric_quantization_config": "edgecore_tosa.quantizer:get_symmetric_quantization_config",
    },
}
"""Maps ExecuTorch's names to their counterparts in edgecore, for `python -m edgecore.executorch`."""
