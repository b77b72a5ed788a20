"""Linear layers around float operators, compiled with options."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import edgecore


class Net(nn.Module):
    """Linear layers around operators that no recipe rounds."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> Any:
        first, second = torch.exp(-self.down(torch.relu(self.up(x)))).split([20, 12], 1)
        return first + 1, second * 2


X = torch.randn(4, 32, generator=torch.Generator().manual_seed(0))


def compiled(recipe: str | None = None, **options: Any) -> Any:
    return edgecore.compile(
        Net().eval(), (X,), backends=[edgecore.Backend("xnnpack", **options)], quantize=recipe,
        calibration=[X] if recipe == "int8" else None,
    )  # fmt: skip


def outside(program: Any) -> dict[str, str]:
    return {
        row.operator.split(".")[1]: "; ".join(reason for _, reason in row.reasons)
        for row in program.report().left_outside
    }


def same(program: Any, other: Any, tolerance: float) -> None:
    got, want = (edgecore.load(one.buffer).forward(X) for one in (program, other))
    for one, two in zip(got, want, strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=tolerance)
