"""Layer, group, batch, instance and RMS norms."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from lowered import check
from torch import nn

X = torch.randn(1, 4, 6, 8, generator=torch.Generator().manual_seed(0))
ROWS = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))


def test_composed_normalizations_equal_eager() -> None:
    class Norms(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList([
                nn.RMSNorm(8), nn.RMSNorm((5, 8), eps=0.1, elementwise_affine=False), nn.GroupNorm(1, 5),
                nn.InstanceNorm1d(5, affine=True), nn.LayerNorm((5, 8)),
            ])  # fmt: skip
            for parameter in self.parameters():
                nn.init.uniform_(parameter)

        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            return [norm(x) for norm in self.norms] + [F.normalize(x, dim=1)]

    check(Norms(), ROWS)
    check(nn.InstanceNorm2d(4, affine=True), X)


@pytest.mark.parametrize(
    "module, shape",
    [
        (nn.BatchNorm2d(4), (2, 4, 5, 6)), (nn.BatchNorm1d(4), (2, 4, 5)), (nn.BatchNorm1d(4), (3, 4)),
        (nn.GroupNorm(2, 6), (2, 6, 5, 7)), (nn.GroupNorm(6, 6, affine=False), (1, 6, 5, 7)),
        (nn.LayerNorm(7), (2, 3, 7)), (nn.LayerNorm((5, 7), elementwise_affine=False), (2, 3, 5, 7)),
    ],
)  # fmt: skip
def test_a_norm_equals_eager(module: nn.Module, shape: tuple[int, ...]) -> None:
    for tensor in [*module.parameters(), *module.buffers()]:
        if tensor.is_floating_point():
            torch.nn.init.uniform_(tensor, 0.5, 1.5)
    check(module, torch.randn(shape) + 1)
