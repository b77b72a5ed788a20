"""Tools for a backend's `Quantizer` of torchao's PT2E quantization: configurations of modules, and annotations of nodes.

Experimental: may change in any release.
"""

from edgecore.quantize.annotations import (
    CLAMPS,
    LAYERS,
    NORMS,
    OBSERVERS,
    ModuleQuantizer,
    activation_observer,
    channel_dim,
    float_args,
    fused_tail,
    is_annotated,
    is_float,
    mark,
    mark_fused,
    mark_shared,
    output_spec,
    weight_spec,
)

__all__ = [
    "CLAMPS",
    "LAYERS",
    "NORMS",
    "OBSERVERS",
    "ModuleQuantizer",
    "activation_observer",
    "channel_dim",
    "float_args",
    "fused_tail",
    "is_annotated",
    "is_float",
    "mark",
    "mark_fused",
    "mark_shared",
    "output_spec",
    "weight_spec",
]
