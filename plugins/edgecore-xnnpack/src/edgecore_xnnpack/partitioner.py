"""Which nodes XNNPACK takes: what the table of operators says."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.partition import CapabilityPartitioner
from edgecore.plugin import CompileSpec
from edgecore_xnnpack.operators import TABLE, make_check

BACKEND_ID = "XnnpackBackend"


class XnnpackPartitioner(CapabilityPartitioner):
    """Tags what a row of the table takes.

    Operators with a better lowering than their decomposition stay whole, but only where the row takes them.
    """

    def __init__(self, compile_specs: Sequence[CompileSpec] = ()) -> None:
        super().__init__(BACKEND_ID, make_check, compile_specs=compile_specs)

    def ops_to_not_decompose(
        self, exported_program: ExportedProgram
    ) -> tuple[Sequence[OpOverload], Callable[[Node], bool] | None]:
        """The rows marked `whole`, where they apply."""
        check = make_check(exported_program, views=True)
        return [target for target, row in TABLE.items() if row.whole], lambda node: check(node) is None
