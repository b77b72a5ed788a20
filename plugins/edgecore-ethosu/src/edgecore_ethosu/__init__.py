"""The Ethos-U backend. Loading a `.pte` imports this module, so it must not import torch, numpy or Vela."""

from __future__ import annotations

from edgecore.plugin import lazy_names
from edgecore_ethosu.backend import edgecore_backends as edgecore_backends

_NAMES = ("EthosUCompileSpec", "EthosUPartitioner", "EthosUQuantizer")

__getattr__ = lazy_names("edgecore_ethosu", dict.fromkeys(_NAMES, "edgecore_ethosu.executorch"))

executorch_modules = {
    "executorch.backends.arm.ethosu": {
        "EthosUCompileSpec": "edgecore_ethosu.executorch:EthosUCompileSpec",
        "EthosUPartitioner": "edgecore_ethosu.executorch:EthosUPartitioner",
    },
    "executorch.backends.arm.quantizer": {
        "EthosUQuantizer": "edgecore_ethosu.executorch:EthosUQuantizer",
        "get_symmetric_quantization_config": "edgecore_tosa.quantizer:get_symmetric_quantization_config",
    },
}
"""Maps ExecuTorch's names to their counterparts in edgecore, for `python -m edgecore.executorch`."""
