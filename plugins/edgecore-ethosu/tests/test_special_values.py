"""The table of the page of special values is what the border of a delegate does."""

from __future__ import annotations

import math

import pytest
import torch

import edgecore

SPECIAL = (math.nan, math.inf, -math.inf, 1e-40)


class Scaled(torch.nn.Module):
    """Elements that do not mix."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 0.5


@pytest.mark.parametrize("recipe", ["int8", "int16x8"])
def test_special_values_become_the_integers_of_the_page(recipe: str) -> None:
    model, samples = Scaled().eval(), [(torch.linspace(-3, 4, 32).reshape(1, 2, 4, 4),)]
    program = edgecore.compile(model, samples[0], backends=["ethosu"], quantize=recipe, calibration=samples)
    assert program.report().delegates == {"EthosUBackend": 1}
    run = edgecore.load(program.buffer, trust=True).forward
    x = samples[0][0].clone()
    usual = torch.as_tensor(run(x)).flatten()
    lowest, largest = (float(torch.as_tensor(run(torch.full_like(x, value))).flatten()[0]) for value in (-1e6, 1e6))
    places = (0, 7, 16, 31)
    x.view(-1)[list(places)] = torch.tensor(SPECIAL)
    got = torch.as_tensor(run(x)).flatten()
    assert got[list(places)].tolist() == [lowest, largest, lowest, 0.0]
    others = [index for index in range(32) if index not in places]
    assert torch.equal(got[others], usual[others])
