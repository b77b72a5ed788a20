"""Base classes of compile specs, partitioners and quantizers for TOSA devices, with ExecuTorch's interfaces."""

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
    """A compile spec: holds the options of a backend, and has the methods of ExecuTorch's compile specs.

    Args:
        options: The class of the backend's options.
        values: Values of the options by name.

    Raises:
        ValueError: A value is not allowed. The message lists the allowed values.
    """

    output_format: ClassVar[str]

    def __init__(self, options: type[T], values: Mapping[str, Any]) -> None:
        self.options = validate_options(options, values)

    def dump_intermediate_artifacts_to(self: S, output_path: str | None) -> S:
        """Set the folder for TOSA graphs and the compiler's output, or None to keep no files; return this object."""
        self.options = self.options.model_copy(update={"dump_intermediate_artifacts_to": output_path})
        return self

    def get_intermediate_path(self) -> str | None:
        """Return the folder for TOSA graphs and the compiler's output; None if no files are kept."""
        return self.options.dump_intermediate_artifacts_to

    @classmethod
    def get_output_format(cls) -> str:
        """Return the format of the backend's blobs, such as "vela"."""
        return cls.output_format


class SpecPartitioner(TosaPartitioner):
    """A partitioner: it tags the fx nodes that the target of a compile spec supports.

    Args:
        compile_spec: A compile spec, or alternatively an instance of the backend's options.
        additional_checks: Further checks that a call must pass, such as an `OperatorSupportBase` of `torch.fx`.
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
    """A quantizer: it annotates an exported model for torchao's `prepare_pt2e` and `prepare_qat_pt2e`.

    Args:
        compile_spec: The compile spec.
    """

    def __init__(self, compile_spec: TosaCompileSpec[Any]) -> None:
        super().__init__()
        self.compile_spec = compile_spec
