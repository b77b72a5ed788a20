"""Graphs that are run node by node, with functions that see and that compute."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch import nn

from edgecore.numerics.evaluate import Evaluator, run_through_delegates

aten = torch.ops.aten


class Twice(nn.Module):
    def forward(self, x):
        return torch.relu(x + x)


def test_what_is_seen_may_be_replaced_and_operators_may_be_computed_otherwise():
    program, x = torch.export.export(Twice(), (torch.ones(2),)), torch.tensor([-1.0, 2.0])
    seen = []

    def see(node, result):
        seen.append(node.op)
        return -result if node.target is aten.add.Tensor else result

    def compute(node, args, kwargs):
        return args[0] * 10 if node.target is aten.relu.default else node.target(*args, **kwargs)

    module = program.module(check_guards=False)
    assert Evaluator(module).run(x).tolist() == [0, 4]
    assert Evaluator(module, see=see, compute=compute).run(x).tolist() == [20, -40]
    assert seen == ["placeholder", "call_function", "call_function", "output"]


def test_a_program_without_delegates_has_no_nodes_inside_of_one():
    program = torch.export.export(Twice(), (torch.ones(2),))
    inside = []
    run_through_delegates(program, [torch.ones(2)], lambda node, result, is_inside: inside.append(is_inside))
    assert inside and not any(inside)
