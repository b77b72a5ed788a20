"""Control flow in the edge dialect: the dim order at its borders, and what is refused."""

import pytest
import torch
from edge_programs import Model
from torch._higher_order_ops.associative_scan import associative_scan

import edgecore
from edgecore.errors import CompileError
from edgecore.ir.control_flow import control_flow
from edgecore.ir.dialect.verifier import VerificationError
from edgecore.ir.graph import calls
from edgecore.pipeline import to_edge

torch.manual_seed(0)
INPUTS = [torch.randn(3, 4) + 0.7, torch.randn(3, 4) - 0.7]


def test_operands_and_results_of_branches_have_the_default_dim_order():
    x = torch.randn(1, 3, 4, 4).to(memory_format=torch.channels_last)
    model = Model(lambda s, x: torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x.relu(), (x * 1,))).eval()
    edge = to_edge(torch.export.export(model, (x,))).exported_program()
    (node,) = calls(edge.graph_module, torch.ops.higher_order.cond)
    assert all(operand.meta["val"].is_contiguous() for operand in control_flow(node).operands)
    loaded = edgecore.load(edgecore.compile(model, (x,), backends=[]).buffer)
    torch.testing.assert_close(loaded.forward(x), model(x))


def test_an_unknown_operator_in_a_branch_is_named_with_the_line_before_it(monkeypatch):
    monkeypatch.delenv("EDGECORE_VERIFY_PASSES")  # the verifier at the end, not the one after a pass

    def function(s, x):
        y = x + 1
        return torch.cond(y.sum() > 0, torch.special.airy_ai, lambda x: x * 1, (y,))

    with pytest.raises(VerificationError, match=r"special_airy_ai.*node .*edge_programs\.py:\d+.*not an operator"):
        to_edge(torch.export.export(Model(function).eval(), (INPUTS[0],)))


def test_a_scan_that_is_a_function_transform_is_refused():
    model = Model(lambda s, x: associative_scan(lambda a, b: a + b, x + 1, 0, combine_mode="generic")).eval()
    with pytest.raises(CompileError, match="vmap, which associative_scan uses"):
        to_edge(torch.export.export(model, (INPUTS[0],)))


def test_no_grad_regions_are_inlined():
    def function(s, x):
        with torch.no_grad():
            y = x + 1
        return y * 2

    edge = to_edge(torch.export.export(Model(function).eval(), (INPUTS[0],))).exported_program()
    assert len(calls(edge.graph_module)) == 2
