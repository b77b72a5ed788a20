"""`VgfCompileSpec` for scripts in ExecuTorch's style: the options of the backend under the documented names."""

from __future__ import annotations

from collections.abc import Sequence

from edgecore.sdk import validate_options
from edgecore_tosa.spec import TosaSpec
from edgecore_vgf.lowering import DEFAULT_SPEC
from edgecore_vgf.options import OUTPUT_FORMAT, VgfOptions


class VgfCompileSpec:
    """Configuration of the compilation into VGF files.

    Args:
        tosa_spec: Profiles and extensions of TOSA, such as `TOSA-1.0+FP`; None for all that the backend knows.
        compiler_flags: Flags of Arm's model converter.

    Raises:
        ValueError: The specification is unknown, or a flag is not possible.
    """

    def __init__(self, tosa_spec: TosaSpec | str | None = None, compiler_flags: Sequence[str] | None = None) -> None:
        values = {
            "tosa_spec": DEFAULT_SPEC if tosa_spec is None else str(tosa_spec),
            "compiler_flags": tuple(compiler_flags or ()),
        }
        self.options = validate_options(VgfOptions, values)

    def dump_intermediate_artifacts_to(self, output_path: str | None) -> VgfCompileSpec:
        """Set the folder for TOSA graphs and VGF files; None for no such files. Return this object."""
        self.options = self.options.model_copy(update={"dump_intermediate_artifacts_to": output_path})
        return self

    def get_intermediate_path(self) -> str | None:
        """Return the folder for TOSA graphs and VGF files."""
        return self.options.dump_intermediate_artifacts_to

    @staticmethod
    def get_output_format() -> str:
        """Return `vgf`, the format of the blobs."""
        return OUTPUT_FORMAT
