"""Tools for a backend's PT2E quantizer (torchao): configure it per module, and annotate nodes.

`Role` says what a quantizer does with an operator; `with_roles` and `operators` select rows of the table of roles.

Experimental: may change in any release.
"""

from edgecore.quantize.annotations import (
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
    mark_split,
    output_spec,
    weight_spec,
)
from edgecore.quantize.roles import CLAMPS, LAYERS, NORMS, Role, edge_forms, fixed_spec, operators, with_roles

__all__ = [
    "CLAMPS",
    "LAYERS",
    "NORMS",
    "OBSERVERS",
    "ModuleQuantizer",
    "Role",
    "activation_observer",
    "channel_dim",
    "edge_forms",
    "fixed_spec",
    "float_args",
    "fused_tail",
    "is_annotated",
    "is_float",
    "mark",
    "mark_fused",
    "mark_shared",
    "mark_split",
    "operators",
    "output_spec",
    "weight_spec",
    "with_roles",
]
