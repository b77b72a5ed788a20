"""ExecuTorch's partitioners for XNNPACK, and the function that returns the settings for lowering."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import edgecore
from edgecore.errors import NoEffectWarning
from edgecore_xnnpack import partitioner
from edgecore_xnnpack.executorch.config import ConfigPrecisionType, OperatorConfig
from edgecore_xnnpack.options import XnnpackOptions

Precision = ConfigPrecisionType | str


class XnnpackPartitioner(partitioner.XnnpackPartitioner):
    """edgecore's partitioner for XNNPACK with ExecuTorch's arguments."""

    def __init__(
        self,
        configs: Sequence[str | type[OperatorConfig]] | None = None,
        config_precisions: Precision | Sequence[Precision] | None = None,
        per_op_mode: bool = False,
        verbose: bool = False,
        *,
        force_non_static_weights_for_f32_linear: bool = False,
        enable_bf16: bool = False,
    ) -> None:
        """Create a partitioner for the target runtime `executorch-1.5`.

        Args:
            configs: Operators to delegate: configurations such as `LinearConfig`, or names; all if None.
            config_precisions: Kinds of operators to delegate: members of `ConfigPrecisionType`, or their names; all if
                None.
            per_op_mode: Give each operator a separate delegate.
            verbose: Print each operator call that is not delegated, and the reason, on stderr.
            force_non_static_weights_for_f32_linear: Let weights and biases of linear layers in float32 be inputs of the
                delegates.
            enable_bf16: Has no effect: bfloat16 operators run in edgecore's kernels.

        Raises:
            ValueError: An operator or a precision is not known.
        """
        if enable_bf16:
            reason = "operators in bfloat16 run in edgecore's kernels"
            warnings.warn(
                f"XnnpackPartitioner(enable_bf16=True) has no effect in edgecore: {reason}",
                NoEffectWarning,
                stacklevel=2,
            )
        options: dict[str, Any] = {
            "per_op_mode": per_op_mode,
            "verbose": verbose,
            "force_non_static_weights_for_f32_linear": force_non_static_weights_for_f32_linear,
        }
        if configs is not None:
            names = [(config,) if isinstance(config, str) else config.operators for config in configs]
            options["configs"] = tuple(name for operators in names for name in operators)
        if config_precisions is not None:
            is_single = isinstance(config_precisions, (str, ConfigPrecisionType))
            kinds: Sequence[Any] = [config_precisions] if is_single else config_precisions  # type: ignore[assignment]
            options["config_precisions"] = tuple(
                kind.name if isinstance(kind, ConfigPrecisionType) else kind for kind in kinds
            )
        super().__init__(XnnpackOptions.model_validate(options))


class XnnpackDynamicallyQuantizedPartitioner(XnnpackPartitioner):
    """Delegates only layers whose inputs are quantized at run time."""

    def __init__(self) -> None:
        """Create the partitioner; it has no options."""
        super().__init__(config_precisions=ConfigPrecisionType.DYNAMIC_QUANT)


class XnnpackFloatingPointPartitioner(XnnpackPartitioner):
    """Delegates only operators in floating point."""

    def __init__(self) -> None:
        """Create the partitioner; it has no options."""
        super().__init__(config_precisions=ConfigPrecisionType.FP32)


def get_xnnpack_edge_compile_config(skip_dim_order: bool = False) -> edgecore.EdgeCompileConfig:
    """Return edgecore's own settings for lowering to XNNPACK. `skip_dim_order=True` has no effect and warns."""
    return edgecore.EdgeCompileConfig(_skip_dim_order=skip_dim_order)
