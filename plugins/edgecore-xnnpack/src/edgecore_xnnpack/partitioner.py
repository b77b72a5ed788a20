"""Find the parts of a program that XNNPACK runs: nodes that the operator table supports and the options allow."""

from __future__ import annotations

import sys

from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.plugin import CompileSpec
from edgecore.sdk import TAG, CapabilityPartitioner, PartitionResult, UnsupportedReason, describe
from edgecore_xnnpack.booleans import boolean_crossings, keep_booleans_inside
from edgecore_xnnpack.op_filter import delegate_per_op, filter_ops
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
        """Make a partitioner for a target runtime; mutable buffers are claimed only for `edgecore`."""
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
        )

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag each supported node with its partition, and record for each other call why it is not supported."""
        result = super().partition(exported_program)
        if self.options.per_op_mode:
            result = self._split(result)
        if self.options.verbose:
            reasons = {unsupported.node: unsupported.reason for unsupported in result.unsupported_nodes}
            for node in exported_program.graph.nodes:
                if node.name in reasons:
                    print(f"xnnpack does not delegate {describe(node)}: {reasons[node.name]}", file=sys.stderr)
        return result

    def exclusions(self, exported_program: ExportedProgram, result: PartitionResult) -> dict[Node, str]:
        """Find tagged nodes that these partitions make unsupported.

        A boolean tensor must not be an input or output of a delegate, because XNNPACK has no boolean type
        (`booleans.py`).
        """
        return boolean_crossings(exported_program) | super().exclusions(exported_program, result)

    def _unsupported_reasons(self, program: ExportedProgram) -> UnsupportedReason:
        reasons = TABLE.unsupported_reasons(program)
        allowed = filter_ops(reasons, program, self.options) if self.options.restricts else reasons
        return keep_booleans_inside(lambda node: self.excluded.get(node) or allowed(node), program)

    def _split(self, result: PartitionResult) -> PartitionResult:
        """Split the partitions so that each operator has a delegate of its own (for the option `per_op_mode`)."""
        program = result.tagged_exported_program
        tagged = [node for node in program.graph.nodes if TAG in node.meta]
        tags = {BACKEND_ID: self.spec}
        for node, leader in delegate_per_op(tagged, program).items():
            node.meta[TAG] = f"{BACKEND_ID}_{leader.name}"
            tags[node.meta[TAG]] = self.spec
        return PartitionResult(program, tags, result.unsupported_nodes)
