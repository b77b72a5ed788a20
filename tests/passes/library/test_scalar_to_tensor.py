"""Tensors as arguments of the calls that passes make."""

import pytest
import torch
from edge_programs import check, edge_of, export, targets

from edgecore.errors import CompileError
from edgecore.ir.graph import calls
from edgecore.passes import ExportPass, PassManager, ScalarToTensorPass

aten = torch.ops.aten
X = torch.randn(3)


class TimesTwo(ExportPass):
    factor = torch.tensor(2.0)

    def call_operator(self, op, args, kwargs, meta):
        if op is not aten.neg.default:
            return super().call_operator(op, args, kwargs, meta)
        return super().call_operator(aten.mul.Tensor, (args[0], self.factor), {}, meta)


def test_a_tensor_without_dims_becomes_a_call_of_full():
    program = PassManager([TimesTwo()])(edge_of(lambda self, x: -x, X))
    assert targets(program) == [aten.full.default, aten.mul.Tensor]
    check(program, lambda self, x: x * 2, X)


def test_a_tensor_with_dims_is_refused_with_the_operator_named():
    class TimesTwos(TimesTwo):
        factor = torch.ones(2)

    with pytest.raises(CompileError, match=r"aten\.neg\.default .*a tensor of shape \(2,\) as an argument"):
        PassManager([TimesTwos()])(edge_of(lambda self, x: -x, X))


def test_a_number_in_the_place_of_a_tensor_becomes_a_tensor():
    program = export(lambda self, x: x * 2.0, X)
    assert [node.args[1] for node in calls(program.graph_module)] == [2.0]
    ScalarToTensorPass()(program.graph_module)
    assert targets(program) == [aten.full.default, aten.mul.Tensor]
    torch.testing.assert_close(program.module(check_guards=False)(X), X * 2)
