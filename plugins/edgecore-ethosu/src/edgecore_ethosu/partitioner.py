"""The partitioner for Ethos-U, with ExecuTorch's interface."""

from __future__ import annotations

from collections.abc import Sequence

from edgecore_ethosu.compile_spec import EthosUCompileSpec
from edgecore_ethosu.lowering import tosa_spec
from edgecore_ethosu.options import EthosUOptions
from edgecore_tosa.partitioner import AdditionalCheck, TosaPartitioner


class EthosUPartitioner(TosaPartitioner):
    """Tags the calls that the target supports.

    Args:
        compile_spec: The configuration of the compilation, or the options of the backend.
        additional_checks: Checks that a call must pass, too, such as an `OperatorSupportBase` of `torch.fx`.
    """

    def __init__(
        self,
        compile_spec: EthosUCompileSpec | EthosUOptions,
        additional_checks: Sequence[AdditionalCheck] | None = None,
    ) -> None:
        options = compile_spec.options if isinstance(compile_spec, EthosUCompileSpec) else compile_spec
        super().__init__(
            "EthosUBackend",
            tosa_spec(options.target),
            compile_specs=options.to_specs(),
            operators=options.operators,
            min_partition_size=options.min_operators,
            additional_checks=additional_checks,
        )
