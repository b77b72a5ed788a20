"""Branches and loop bodies as programs of their own, which partitioners get after the method."""

from __future__ import annotations

import pytest
import torch
from fake_backends import compiles, lower
from torch._higher_order_ops.while_loop import while_loop

from edgecore.errors import FallbackWarning
from edgecore.ir.delegate import delegates
from edgecore.ir.dialect.verifier import verify
from edgecore.ir.graph import all_calls
from edgecore.ir.program.constants import Constants
from edgecore.partition import CapabilityPartitioner
from edgecore.pipeline import to_edge

aten = torch.ops.aten
X = torch.randn(2, 3)


class Choice(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.ones(2, 3))
        self.register_buffer("other", torch.full((2, 3), 2.0))

    def forward(self, x):
        def true(x):
            return (x * self.weight).sin() * self.other

        return torch.cond(x.sum() > 0, true, lambda x: x * self.weight, (x,))


class Loop(torch.nn.Module):
    def forward(self, x):
        return while_loop(lambda i, y: (i * 2) < 6, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x))[1]


def edge(model):
    return to_edge(torch.export.export(model, (X,))).exported_program()


def products(program):
    return lambda node: None if node.target in (aten.mul.Tensor, aten.mul.Scalar) else "no product"


def test_each_body_is_partitioned_like_a_program():
    model = Choice()
    program, diagnostics = lower(edge(model), CapabilityPartitioner("Fake", products))
    assert len(delegates(program)) == 3
    captured = [sorted(Constants(module.original_module).specs) != [] for _, module in delegates(program)]
    assert captured == [True, True, True]
    assert Constants(program).specs == {}  # the delegates hold the weights
    verify(program)
    for x in (X.abs(), -X.abs()):
        torch.testing.assert_close(program.module(check_guards=False)(x), model(x))
    outside = {
        node.target: diagnostics.by_node[node.name] for node in all_calls(program.graph_module, aten.sin.default)
    }
    assert outside == {aten.sin.default: [("Fake", "no product")]}


def test_the_condition_of_a_loop_stays_outside():
    program, _ = lower(edge(Loop()), CapabilityPartitioner("Fake", products))
    (call,) = [node for node, _ in delegates(program)]
    assert [node.target for node in all_calls(program.graph_module, aten.mul.Scalar, aten.mul.Tensor)] != []
    assert call.graph is not program.graph
    torch.testing.assert_close(program.module(check_guards=False)(X), Loop()(X))


def test_a_body_whose_backend_fails_stays_as_it_is():
    def fails(backend_id, program, specs):
        if len([node for node in program.graph.nodes if node.op == "placeholder"]) == 2:
            raise ValueError("two inputs")
        return compiles(backend_id, program, specs)

    model = Choice()
    with pytest.warns(FallbackWarning, match=r"aten.mul.Tensor .*two inputs"):
        program, _ = lower(edge(model), CapabilityPartitioner("Fake", products), fails)
    assert delegates(program) == []
    torch.testing.assert_close(program.module(check_guards=False)(X), model(X))


def test_calls_of_different_bodies_have_different_names():
    program, _ = lower(edge(Choice()), CapabilityPartitioner("Fake", lambda program: lambda node: "nothing"))
    names = [node.name for node in all_calls(program.graph_module)]
    assert len(set(names)) == len(names)
