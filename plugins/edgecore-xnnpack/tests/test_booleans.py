"""Booleans stay inside a delegate: a node that exchanges one with a node outside is outside as well."""

from __future__ import annotations

import torch
from lowered import as_module, refusals

import edgecore

X = torch.randn(1, 4, 6, 8, generator=torch.Generator().manual_seed(0))


def test_a_comparison_is_where_its_reader_is() -> None:
    """The reader waits for something outside, so that the two would be in different delegates."""

    def function(x: torch.Tensor) -> torch.Tensor:
        mask = x.exp() > 1
        return torch.where(mask, torch.erf(x * 2), x) + 1

    found = refusals(function, X)
    assert found["aten.gt.Scalar"] == "its booleans are read outside the delegate"
    assert found["aten.where.self"] == "reads booleans that are computed outside the delegate"
    program = edgecore.compile(as_module(function), (X,), backends=["xnnpack"])
    torch.testing.assert_close(edgecore.load(program.buffer).forward(X), function(X))


def test_a_tensor_of_booleans_is_filled_with_a_boolean() -> None:
    class Fill(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.where((x > 0).masked_fill(y > 0, -1.0), x, y)

    x, y = torch.tensor([[1.0, -1.0, 2.0, -3.0]]), torch.tensor([[1.0, 2.0, -4.0, -5.0]])
    program = edgecore.compile(Fill().eval(), (x, y), backends=[edgecore.Backend("xnnpack", required=True)])
    assert torch.equal(edgecore.load(program.buffer).forward(x, y), Fill()(x, y))
