"""Find the parts of a program that XNNPACK runs: nodes that the operator table supports and the options allow."""

from __future__ import annotations

import sys
from dataclasses import replace

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.plugin import CompileSpec
from edgecore.sdk import TAG, CapabilityPartitioner, PartitionResult, UnsupportedReason, describe
from edgecore_xnnpack.op_filter import delegate_per_op, filter_ops, nothing_matches, weights_of_float_layers
from edgecore_xnnpack.operators import TABLE
from edgecore_xnnpack.operators.cache import can_hold, is_update
from edgecore_xnnpack.options import XnnpackOptions

BACKEND_ID = "XnnpackBackend"
FORCE_FP16 = CompileSpec("force_fp16", b"\x01")


class XnnpackPartitioner(CapabilityPartitioner):
    """Tags the nodes that the operator table supports and `options` allow.

    Some operators, such as softmax, are faster as one XNNPACK node than after decomposition. The table lists them in
    `ops_to_not_decompose`; a call of such an operator is still decomposed if the table does not support that call.
    """

    def __init__(self, options: XnnpackOptions | None = None, runtime: str = "executorch-1.5") -> None:
        """Create a partitioner.

        Args:
            options: The options of the backend; None for the defaults.
            runtime: The target runtime; delegates keep mutable buffers only for `edgecore`.

        Raises:
            TypeError: `options` is not an `XnnpackOptions`, but for example a list of configurations, as ExecuTorch's
                class takes.
        """
        if options is not None and not isinstance(options, XnnpackOptions):
            raise TypeError(
                f"options are XnnpackOptions, not {type(options).__name__}; write XnnpackOptions(configs=...)"
            )
        self.options = options or XnnpackOptions()
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
        """Tag each supported node with its partition, and record why each other node is not supported."""
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
        """Split the partitions so that each operator has a separate delegate (option `per_op_mode`)."""
        program = result.tagged_exported_program
        tagged = [node for node in program.graph.nodes if TAG in node.meta]
        tags, copied = {BACKEND_ID: self.spec}, {}
        for node, leaders in delegate_per_op(tagged, program).items():
            names = [f"{BACKEND_ID}_{leader.name}" for leader in leaders]
            tags |= dict.fromkeys(names, self.spec)
            node.meta[TAG], copied[node.name] = names[0], names[1:]
        return PartitionResult(program, tags, result.unsupported_nodes, copied_nodes=copied)


def _booleans(node: Node) -> str | None:
    """Refuse boolean inputs and outputs of a delegate: XNNPACK has no booleans, so they are float32 inside."""
    val = node.meta.get("val")
    return "booleans" if isinstance(val, torch.Tensor) and val.dtype == torch.bool else None
