"""ExecuTorch's names for the VGF backend: compile spec, partitioner and quantizer, with ExecuTorch's arguments."""

from __future__ import annotations

from collections.abc import Sequence

from edgecore_tosa.executorch import SpecPartitioner, SpecQuantizer, TosaCompileSpec
from edgecore_tosa.spec import TosaSpec
from edgecore_vgf.compiler import VgfCompiler
from edgecore_vgf.options import DEFAULT_SPEC, OUTPUT_FORMAT, VgfOptions


class VgfCompileSpec(TosaCompileSpec[VgfOptions]):
    """A compile spec: the settings for compiling models to VGF files.

    Args:
        tosa_spec: Profiles and extensions of TOSA, such as `TOSA-1.0+FP`; None for all that the backend supports.
        compiler_flags: Flags of Arm's model converter.

    Raises:
        ValueError: The specification is unknown, or a flag is not allowed.
    """

    output_format = OUTPUT_FORMAT

    def __init__(self, tosa_spec: TosaSpec | str | None = None, compiler_flags: Sequence[str] | None = None) -> None:
        values = {
            "tosa_spec": DEFAULT_SPEC if tosa_spec is None else str(tosa_spec),
            "compiler_flags": tuple(compiler_flags or ()),
        }
        super().__init__(VgfOptions, values)


class VgfPartitioner(SpecPartitioner):
    """The partitioner: it tags the fx nodes that the TOSA specification of its compile spec supports."""

    backend_id = VgfCompiler.backend_id


class VgfQuantizer(SpecQuantizer):
    """The quantizer: it annotates an exported model for the VGF backend."""
