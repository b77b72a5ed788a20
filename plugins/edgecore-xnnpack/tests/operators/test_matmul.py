"""Matmuls and linear layers, of weights and of computed values."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from lowered import check, refusals
from torch import nn

ROWS = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))


def test_linear_layers_of_computed_weights_equal_eager() -> None:
    def function(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        return [F.linear(x, w), F.linear(x, w, b), torch.addmm(b, x[0], w.T, alpha=2, beta=0.5)]

    check(function, ROWS, torch.randn(3, 8), torch.randn(3))


@pytest.mark.parametrize("shape", [(5,), (3, 5), (1, 5), (2, 3, 5), (2, 3, 4, 5)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_layer_equals_eager(shape: tuple[int, ...], bias: bool) -> None:
    check(nn.Sequential(nn.Linear(5, 7, bias), nn.ReLU(), nn.Linear(7, 2)), torch.randn(shape))


def test_a_linear_layer_with_a_vector_as_weight_stays_outside_with_a_reason() -> None:
    found = refusals(lambda x: F.linear(x, x[0, 0].exp()), ROWS)
    assert "a weight of rank 1" in str(found)


class Weights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w, self.b, self.c = (nn.Parameter(torch.randn(shape)) for shape in ((5, 7), (7,), (3, 7)))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [x @ self.w, self.c @ (x @ self.w).T, torch.addmm(self.b, x, self.w), torch.addmm(self.c, x, self.w)]


def test_matmuls_with_weights_equal_eager() -> None:
    check(Weights(), torch.randn(3, 5))


def test_matmuls_of_computed_values_equal_eager() -> None:
    check(lambda x, y, z: [x @ y, torch.addmm(z, x, y)], torch.randn(3, 5), torch.randn(5, 4), torch.randn(4))
    check(torch.bmm, torch.randn(2, 3, 5), torch.randn(2, 5, 4))
    check(torch.matmul, torch.randn(2, 4, 3, 5), torch.randn(2, 4, 5, 6))
