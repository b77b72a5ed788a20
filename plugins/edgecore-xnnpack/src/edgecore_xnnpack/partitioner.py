"""Which nodes XNNPACK takes: what the table of operators says, and the options leave."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.graph import describe
from edgecore.partition import CapabilityPartitioner, PartitionResult
from edgecore.partition.types import TAG
from edgecore.plugin import CompileSpec
from edgecore_xnnpack.booleans import crossing, kept_inside
from edgecore_xnnpack.choice import Check, filtered, one_operator_each
from edgecore_xnnpack.operators import TABLE, make_check
from edgecore_xnnpack.options import XnnpackOptions

BACKEND_ID = "XnnpackBackend"
FORCE_FP16 = CompileSpec("force_fp16", b"\x01")


class XnnpackPartitioner(CapabilityPartitioner):
    """Tags what a row of the table takes, unless `options` say otherwise.

    Operators with a better lowering than their decomposition stay whole, but only where the row takes them.
    """

    def __init__(self, options: XnnpackOptions | None = None) -> None:
        self.options = options or XnnpackOptions()
        specs = [FORCE_FP16] if self.options.force_fp16 else []
        self._outside: dict[Node, str] = {}
        super().__init__(BACKEND_ID, self._make_check, compile_specs=specs)

    def ops_to_not_decompose(
        self, exported_program: ExportedProgram
    ) -> tuple[Sequence[OpOverload], Callable[[Node], bool] | None]:
        """The rows marked `whole`, where they apply."""
        check = make_check(exported_program, views=True)
        return [target for target, row in TABLE.items() if row.whole], lambda node: check(node) is None

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag the accepted nodes; every other call node gets a reason."""
        self._outside.clear()
        result = super().partition(exported_program)
        while found := crossing(exported_program):
            self._outside.update(found)
            for node in exported_program.graph.nodes:
                if node.meta.get(TAG) in result.partition_tags:
                    del node.meta[TAG]
            result = super().partition(exported_program)
        if self.options.per_op_mode:
            result = self._split(result)
        if self.options.verbose:
            reasons = {rejection.node: rejection.reason for rejection in result.rejections}
            for node in exported_program.graph.nodes:
                if node.name in reasons:
                    print(f"xnnpack leaves {describe(node)}: {reasons[node.name]}", file=sys.stderr)
        return result

    def _make_check(self, program: ExportedProgram) -> Check:
        check = make_check(program)
        chosen = filtered(check, program, self.options) if self.options.chooses else check
        return kept_inside(lambda node: self._outside.get(node) or chosen(node), program)

    def _split(self, result: PartitionResult) -> PartitionResult:
        program = result.tagged_exported_program
        tagged = [node for node in program.graph.nodes if TAG in node.meta]
        tags = {BACKEND_ID: self.spec}
        for node, leader in one_operator_each(tagged, program).items():
            node.meta[TAG] = f"{BACKEND_ID}_{leader.name}"
            tags[node.meta[TAG]] = self.spec
        return PartitionResult(program, tags, result.rejections)
