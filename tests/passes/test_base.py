"""Passes of users: classes that rewrite calls, as ExecuTorch's documentation shows them."""

import pytest
import torch
from edge_programs import check, edge_of, targets

from edgecore.ir.graph import calls
from edgecore.passes import (
    ExportPass,
    PassManager,
)

aten = torch.ops.aten


class AddToSubtract(ExportPass):
    def call_operator(self, op, args, kwargs, meta):
        if op != aten.add.Tensor:
            return super().call_operator(op, args, kwargs, meta)
        x, y = args
        negative = super().call_operator(aten.neg.default, (y,), {}, meta)
        return super().call_operator(aten.sub.Tensor, (x, negative), {}, meta)

    def ensures(self, graph_module):
        if calls(graph_module, aten.add.Tensor):
            raise ValueError("an addition is left")


class RemoveRelu(ExportPass):
    def call_operator(self, op, args, kwargs, meta):
        return args[0] if op == aten.relu.default else super().call_operator(op, args, kwargs, meta)

    def requires(self, graph_module):
        if not calls(graph_module, aten.relu.default):
            raise ValueError("no relu to remove")


def test_passes_written_as_in_the_documentation_rewrite_calls_and_check_their_graph():
    x, y = torch.randn(2), torch.randn(2)
    program = PassManager([AddToSubtract(), RemoveRelu()])(edge_of(lambda s, x, y: (x + y).relu(), x, y))
    check(program, lambda s, x, y: x + y, x, y)
    assert targets(program) == [aten.neg.default, aten.sub.Tensor]
    assert all(node.meta.get("stack_trace") for node in calls(program.graph_module))
    result = AddToSubtract()(program.graph_module)
    assert result.graph_module is program.graph_module
    assert not result.modified
    with pytest.raises(ValueError, match="no relu"):
        RemoveRelu()(program.graph_module)
