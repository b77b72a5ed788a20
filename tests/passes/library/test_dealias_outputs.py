"""Each result of a method gets memory of its own."""

import torch
from edge_programs import check, edge_of

from edgecore.passes.library.dealias_outputs import dealias_outputs

aten = torch.ops.aten


def results_of(program):
    return list(program.graph.output_node().args[0])


def test_a_result_that_is_an_input_or_another_result_is_copied():
    function = lambda s, x: (x, (y := x + 1), y, y.relu())
    x = torch.randn(3)
    program = dealias_outputs(edge_of(function, x))
    check(program, function, x)
    results = results_of(program)
    assert len(set(results)) == 4
    copies = [node for node in results if node.target is aten.clone.default]
    assert copies == [results[0], results[2]]


def test_a_result_that_is_a_weight_is_copied():
    function = lambda s, x: (s.weight, x * s.weight)
    x, weight = torch.randn(3), torch.randn(3)
    program = dealias_outputs(edge_of(function, x, weight=weight))
    check(program, function, x, weight=weight)
    assert [node.target for node in results_of(program)] == [aten.clone.default, aten.mul.Tensor]


def test_a_buffer_that_is_set_to_an_input_gets_a_copy():
    def function(s, x):
        s.state.copy_(x)
        return x * 2

    program = dealias_outputs(edge_of(function, torch.ones(3), state=torch.zeros(3)))
    stored, result = results_of(program)
    assert stored.op == "call_function" and result.target is aten.mul.Scalar
    results = program.module(check_guards=False)(torch.ones(3))
    assert torch.equal(results, torch.full((3,), 2.0))
