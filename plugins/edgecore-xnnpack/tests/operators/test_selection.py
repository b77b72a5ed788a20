"""Selection by a mask, constant or computed."""

from __future__ import annotations

from collections.abc import Callable

import torch
from lowered import Together, check, compiled

import edgecore

Function = Callable[..., torch.Tensor]

X = torch.randn(1, 4, 6, 8, generator=torch.Generator().manual_seed(0))

SELECTIONS: dict[str, Function] = {
    "where": lambda x, module: torch.where(module.mask, x, x * 2),
    "where, a number": lambda x, module: torch.where(module.mask, x, 0.5),
    "masked_fill": lambda x, module: x.masked_fill(module.mask, -1e9),
    "masked attention": lambda x, module: x.masked_fill(module.mask[0, 0] & (X[0, 0, 0] > 0), -torch.inf).softmax(-1),
    "tril": lambda x: x.tril(1),
    "triu": lambda x: x.triu(),
}


def test_selections_by_a_constant_mask_equal_eager() -> None:
    check(Together(SELECTIONS), X)


def test_selection_keeps_infinities() -> None:
    values = torch.tensor([[torch.inf, -torch.inf, 3.0, -0.0]])
    mask = torch.tensor([True, False, True, False])

    def function(x: torch.Tensor) -> list[torch.Tensor]:
        return [torch.where(mask, x, x * -1), x.masked_fill(mask, 2.0), x.logsumexp(1), x[:, 1:2].logsumexp(1)]

    program = compiled(function, values)
    for got, want in zip(edgecore.load(program.buffer).forward(values), function(values), strict=True):
        assert torch.equal(got, want)
