"""In-place operators and writes through views become operators that return new tensors."""

import pytest
import torch
from edge_programs import Model, export
from torch import nn

from edgecore.ir.graph import calls
from edgecore.ir.program import copy_program
from edgecore.passes.functionalize import functionalize


def inplace_chain(self, x):
    y = x + 1
    y.relu_()
    y.mul_(2)
    return y.sigmoid_() + y


def write_through_view(self, x):
    y = x + 1
    y[0].mul_(3)
    return y


def write_under_view(self, x):
    y = x + 1
    z = y.view(-1)
    y.relu_()
    return z + 1


def write_into_input(self, x):
    x.add_(1)
    return x * 2


def write_of_another_dtype(self, x):
    y = x + 1
    y.add_(x.double())
    return y.gt_(0.5)


def write_after_dropout(self, x):
    y = x + 1
    z = nn.functional.dropout(y, training=False)
    y.relu_()
    return z + y


@pytest.mark.parametrize(
    "function",
    [
        inplace_chain,
        write_through_view,
        write_under_view,
        write_of_another_dtype,
        write_after_dropout,
        write_into_input,
    ],
)
def test_a_functionalized_program_equals_eager_and_torch(function):
    x = torch.randn(3, 4)
    program = export(function, x.clone())
    functional = functionalize(copy_program(program))
    assert not any(
        node.target._schema.is_mutable
        for node in calls(functional.graph_module)
        if isinstance(node.target, torch._ops.OpOverload)
    )
    expected = Model(function)(x.clone())
    torch.testing.assert_close(functional.module(check_guards=False)(x.clone()), expected)
    if function is write_after_dropout:
        return  # torch makes the dropout a copy
    by_torch = program.run_decompositions({}).module(check_guards=False)
    torch.testing.assert_close(by_torch(x.clone()), expected)
