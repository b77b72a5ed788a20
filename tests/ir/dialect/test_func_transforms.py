"""Derivatives and batches of `torch.func` are refused in a sentence about the model."""

from __future__ import annotations

import pytest
import torch
from edge_programs import Function
from torch import nn

import edgecore
from edgecore.errors import CompileError


def _vjp(x):
    result, pull = torch.func.vjp(torch.sin, x)
    return pull(torch.ones_like(result))[0]


TRANSFORMS = {
    "grad": torch.func.grad(lambda x: x.pow(3).sum()),
    "value": lambda x: torch.func.grad_and_value(lambda x: x.pow(3).sum())(x)[1],
    "jacrev": torch.func.jacrev(torch.sin),
    "vjp": _vjp,
    "vmap": torch.vmap(torch.sum),
}


@pytest.mark.parametrize("quantize", [None, "int8"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_transform_is_named_and_not_a_fault_of_edgecore(name, quantize):
    x = torch.ones(2, 3)
    calibration = [(x,)] if quantize else None
    with pytest.raises(CompileError, match=r"is a step of a function transform .* write the derivative") as raised:
        edgecore.compile(
            Function(TRANSFORMS[name]).eval(), (x,), backends=["xnnpack"], quantize=quantize, calibration=calibration
        )
    assert "fault of edgecore" not in str(raised.value)


def test_a_program_with_a_transform_is_refused_by_to_edge():
    program = torch.export.export(Function(TRANSFORMS["grad"]).eval(), (torch.ones(2, 3),))
    with pytest.raises(CompileError, match="is a step of a function transform"):
        edgecore.to_edge(program)


def test_functional_call_compiles():
    linear = nn.Linear(3, 2).eval()
    model = Function(lambda x: torch.func.functional_call(linear, {"weight": linear.weight * 2}, (x,)))
    model.linear = linear
    x = torch.ones(2, 3)
    method = edgecore.load(edgecore.compile(model.eval(), (x,)).buffer).forward
    torch.testing.assert_close(torch.from_dlpack(method(x)), model(x).detach())
