"""Questions that the constraints of an operator table ask about a call."""

import torch
from edge_programs import edge_of

from edgecore.ir.graph import calls
from edgecore.ir.program.constants import Constants
from edgecore.partition import NodeQuery

aten = torch.ops.aten


def queries():
    program = edge_of(lambda s, x: torch.cat([x * s.weight, x], 1), torch.ones(2, 3), weight=torch.full((3,), 2.0))
    (mul,) = calls(program.graph_module, aten.mul.Tensor)
    (cat,) = calls(program.graph_module, aten.cat.default)
    return NodeQuery(mul, Constants(program)), cat


def test_a_query_reads_arguments_and_constants():
    query, _ = queries()
    weight = query.argument("other")
    assert query.is_constant(weight) and not query.is_constant(query.argument("self"))
    assert query.constant(weight).tolist() == [2.0, 2.0, 2.0]


def test_a_query_about_another_call_keeps_the_constants():
    query, cat = queries()
    other = query.about(cat)
    assert other.node is cat and query.node is not cat and other.constants is query.constants
    assert other.argument("dim") == 1


def test_a_query_lists_what_a_call_reads_and_returns():
    query, cat = queries()
    names = [name for name, _ in query.about(cat).vals()]
    assert names == [f"input {source.name}" for source in cat.args[0]] + ["its result"]
    assert [name for name, _ in query.about(cat).vals(except_arguments=("tensors",))] == ["its result"]
    assert query.about(cat).nodes_of(("tensors", "dim")) == set(cat.args[0])
