"""Base classes of the compile specs, partitioners and quantizers that ExecuTorch scripts use, for TOSA devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from edgecore.sdk import validate_options
from edgecore_tosa.options import TosaOptions
from edgecore_tosa.partitioner import AdditionalCheck, TosaPartitioner
from edgecore_tosa.quantizer import TosaQuantizer

T = TypeVar("T", bound=TosaOptions)
S = TypeVar("S", bound="TosaCompileSpec[Any]")


class TosaCompileSpec(Generic[T]):
    """The options of a backend under the names of ExecuTorch.

    Args:
        options: Class of the options.
        values: Values of the options.

    Raises:
        ValueError: A value is not allowed. The message lists the allowed values.
    """

    output_format: ClassVar[str]

    def __init__(self, options: type[T], values: Mapping[str, Any]) -> None:
        self.options = validate_options(options, values)

    def dump_intermediate_artifacts_to(self: S, output_path: str | None) -> S:
        """Set the folder for TOSA graphs and the compiler's output; None to keep no files. Return this object."""
        self.options = self.options.model_copy(update={"dump_intermediate_artifacts_to": output_path})
        return self

    def get_intermediate_path(self) -> str | None:
        """Return the folder for TOSA graphs and the compiler's output."""
        return self.options.dump_intermediate_artifacts_to

    @classmethod
    def get_output_format(cls) -> str:
        """Return the format of the blobs."""
        return cls.output_format


class SpecPartitioner(TosaPartitioner):
    """Tags the calls that a target supports.

    Args:
        compile_spec: Configuration of the compilation, or the options of the backend.
        additional_checks: Checks that a call must pass, too, such as an `OperatorSupportBase` of `torch.fx`.
    """

    backend_id: ClassVar[str]

    def __init__(
        self,
        compile_spec: TosaCompileSpec[Any] | TosaOptions,
        additional_checks: Sequence[AdditionalCheck] | None = None,
    ) -> None:
        options = compile_spec.options if isinstance(compile_spec, TosaCompileSpec) else compile_spec
        super().__init__(self.backend_id, options, additional_checks)


class SpecQuantizer(TosaQuantizer):
    """Annotates an exported model for `prepare_pt2e` and `prepare_qat_pt2e`.

    Args:
        compile_spec: Configuration of the compilation.
    """

    def __init__(self, compile_spec: TosaCompileSpec[Any]) -> None:
        super().__init__()
        self.compile_spec = compile_spec
