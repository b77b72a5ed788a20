"""The partitioner for VGF, with ExecuTorch's interface."""

from __future__ import annotations

from collections.abc import Sequence

from edgecore_tosa.partitioner import AdditionalCheck, TosaPartitioner
from edgecore_tosa.spec import TosaSpec
from edgecore_vgf.compile_spec import VgfCompileSpec
from edgecore_vgf.options import VgfOptions


class VgfPartitioner(TosaPartitioner):
    """Tags the calls that the target supports.

    Args:
        compile_spec: The configuration of the compilation, or the options of the backend.
        additional_checks: Checks that a call must pass, too, such as an `OperatorSupportBase` of `torch.fx`.
    """

    def __init__(
        self,
        compile_spec: VgfCompileSpec | VgfOptions,
        additional_checks: Sequence[AdditionalCheck] | None = None,
    ) -> None:
        options = compile_spec.options if isinstance(compile_spec, VgfCompileSpec) else compile_spec
        super().__init__(
            "VgfBackend",
            TosaSpec.parse(options.tosa_spec),
            compile_specs=options.to_specs(),
            operators=options.operators,
            min_partition_size=options.min_operators,
            additional_checks=additional_checks,
        )
