"""Find the parts of a program that XNNPACK runs: nodes that the operator table supports and the options allow."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.errors import NoEffectWarning
from edgecore.plugin import CompileSpec
from edgecore.sdk import TAG, CapabilityPartitioner, PartitionResult, UnsupportedReason, describe
from edgecore_xnnpack.op_filter import delegate_per_op, filter_ops, nothing_matches, weights_of_float_layers
from edgecore_xnnpack.operators import TABLE
from edgecore_xnnpack.operators.cache import can_hold, is_update
from edgecore_xnnpack.options import XnnpackOptions
from edgecore_xnnpack.partition_config import ConfigPrecisionType, OperatorConfig

BACKEND_ID = "XnnpackBackend"
FORCE_FP16 = CompileSpec("force_fp16", b"\x01")
Precisions = ConfigPrecisionType | str


class XnnpackPartitioner(CapabilityPartitioner):
    """Tags the nodes that the operator table supports and `options` allow.

    Some operators, such as softmax, are faster as one XNNPACK node than after decomposition. The table lists them in
    `ops_to_not_decompose`; a call of such an operator is still decomposed if the table does not support that call.
    """

    def __init__(
        self,
        options: XnnpackOptions | None = None,
        runtime: str = "executorch-1.5",
        *,
        configs: Sequence[str | type[OperatorConfig]] | None = None,
        config_precisions: Precisions | Sequence[Precisions] | None = None,
        per_op_mode: bool = False,
        verbose: bool = False,
        force_non_static_weights_for_f32_linear: bool = False,
        enable_bf16: bool = False,
    ) -> None:
        """Make a partitioner.

        Args:
            options: All options; or None, and those that follow.
            runtime: The target runtime; mutable buffers are claimed only for `edgecore`.
            configs: Operators to delegate: names, or configurations such as `LinearConfig` of `partition_config`.
            config_precisions: Kinds of operators to delegate: members of `ConfigPrecisionType`, or their names.
            per_op_mode: Give each operator a delegate of its own.
            verbose: Print each operator call that is not delegated, and the reason, on stderr.
            force_non_static_weights_for_f32_linear: Let weights and biases of linear layers in float32 be inputs of the
                delegates.
            enable_bf16: Has no effect: operators in bfloat16 run in edgecore's kernels.

        Raises:
            ValueError: An operator or a precision is not known, or options are given twice.
            TypeError: `options` is a list of configurations, which ExecuTorch's class has as its first argument.
        """
        if options is not None and not isinstance(options, XnnpackOptions):
            raise TypeError(f"options are XnnpackOptions, not {type(options).__name__}; write configs=[...]")
        if enable_bf16:
            reason = "operators in bfloat16 run in edgecore's kernels"
            warnings.warn(
                f"XnnpackPartitioner(enable_bf16=True) has no effect in edgecore: {reason}",
                NoEffectWarning,
                stacklevel=2,
            )
        flags = {
            "per_op_mode": per_op_mode,
            "verbose": verbose,
            "force_non_static_weights_for_f32_linear": force_non_static_weights_for_f32_linear,
        }
        if options is not None and (configs or config_precisions or any(flags.values())):
            raise ValueError("give all options in `options`, or all of them by name")
        self.options = options or _options(configs, config_precisions, flags)
        holds_state = runtime == "edgecore" and not self.options.per_op_mode
        super().__init__(
            BACKEND_ID,
            self._unsupported_reasons,
            compile_specs=[FORCE_FP16] if self.options.force_fp16 else [],
            ops_to_not_decompose=TABLE.ops_to_not_decompose,
            preserve=TABLE.preserve,
            can_hold=can_hold if holds_state else None,
            updates_in_place=is_update,
            inside_only=_booleans,
        )

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag each supported node with its partition, and record for each other call why it is not supported."""
        result = super().partition(exported_program)
        if self.options.per_op_mode:
            result = self._split(result)
        result.warning = nothing_matches(exported_program, self.options)
        if self.options.force_non_static_weights_for_f32_linear:
            stay = weights_of_float_layers(exported_program, self.options)
            spec = replace(self.spec, constants_as_inputs=stay)
            result.partition_tags = dict.fromkeys(result.partition_tags, spec)
        if self.options.verbose:
            reasons = {unsupported.node: unsupported.reason for unsupported in result.unsupported_nodes}
            for node in exported_program.graph.nodes:
                if node.name in reasons:
                    print(f"xnnpack does not delegate {describe(node)}: {reasons[node.name]}", file=sys.stderr)
        return result

    def _unsupported_reasons(self, program: ExportedProgram) -> UnsupportedReason:
        reasons = TABLE.unsupported_reasons(program)
        return filter_ops(reasons, program, self.options) if self.options.restricts else reasons

    def _split(self, result: PartitionResult) -> PartitionResult:
        """Split the partitions so that each operator has a delegate of its own (for the option `per_op_mode`)."""
        program = result.tagged_exported_program
        tagged = [node for node in program.graph.nodes if TAG in node.meta]
        tags, copied = {BACKEND_ID: self.spec}, {}
        for node, leaders in delegate_per_op(tagged, program).items():
            names = [f"{BACKEND_ID}_{leader.name}" for leader in leaders]
            tags |= dict.fromkeys(names, self.spec)
            node.meta[TAG], copied[node.name] = names[0], names[1:]
        return PartitionResult(program, tags, result.unsupported_nodes, copied_nodes=copied)


def _options(
    configs: Sequence[str | type[OperatorConfig]] | None,
    precisions: Precisions | Sequence[Precisions] | None,
    flags: Mapping[str, bool],
) -> XnnpackOptions:
    chosen: dict[str, Any] = dict(flags)
    if configs is not None:
        names = [(one,) if isinstance(one, str) else one.operators for one in configs]
        chosen["configs"] = tuple(name for of_config in names for name in of_config)
    if precisions is not None:
        several = [precisions] if isinstance(precisions, (str, ConfigPrecisionType)) else precisions
        chosen["config_precisions"] = tuple(
            one.name if isinstance(one, ConfigPrecisionType) else one for one in several
        )
    return XnnpackOptions.model_validate(chosen)


def _booleans(node: Node) -> str | None:
    """Say that booleans must not cross a border: XNNPACK has no booleans, and inside of a delegate they are float32."""
    val = node.meta.get("val")
    return "booleans" if isinstance(val, torch.Tensor) and val.dtype == torch.bool else None
