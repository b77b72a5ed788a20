"""Decomposition into the edge dialect: the pass, direct rewrites, and decompositions that torch lacks."""

from edgecore.passes.decompose.decompose import (
    Preserve,
    decompose,
    inline_decomposition,
    preserve_nothing,
)
from edgecore.passes.decompose.decompositions.volumes import is_volume_convolution
from edgecore.passes.decompose.rewrites.direct import REWRITES, Rewrite
from edgecore.passes.decompose.rewrites.kernels import KERNEL_REWRITES, before_backends

__all__ = [
    "KERNEL_REWRITES",
    "REWRITES",
    "Preserve",
    "Rewrite",
    "before_backends",
    "decompose",
    "inline_decomposition",
    "is_volume_convolution",
    "preserve_nothing",
]
