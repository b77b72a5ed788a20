"""Faults that the conformance suite found."""

from __future__ import annotations

import pytest
import torch

import edgecore


@pytest.mark.parametrize("function", [torch.max, torch.min])
def test_extremes_of_integers_stay_outside(function: object) -> None:
    class Extreme(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x, 1).values  # type: ignore[operator]

    x = torch.tensor([[3, 1, 2], [4, 6, 5]])
    program = edgecore.compile(Extreme().eval(), (x,), backends=["xnnpack"])
    assert "maxima of integers" in str(program.report())
    assert torch.equal(edgecore.load(program.buffer).forward(x), function(x, 1).values)  # type: ignore[operator]


def test_truth_values_are_filled_with_a_truth_value() -> None:
    class Fill(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.where((x > 0).masked_fill(y > 0, -1.0), x, y)

    x, y = torch.tensor([[1.0, -1.0, 2.0, -3.0]]), torch.tensor([[1.0, 2.0, -4.0, -5.0]])
    program = edgecore.compile(Fill().eval(), (x, y), backends=[edgecore.Backend("xnnpack", required=True)])
    assert torch.equal(edgecore.load(program.buffer).forward(x, y), Fill()(x, y))
