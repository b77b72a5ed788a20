"""Moves of elements by constant indices: flips, rolls, nearest resizing, pixel shuffles."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from lowered import Together, check
from torch import nn

Function = Callable[..., torch.Tensor]

X = torch.randn(1, 4, 6, 8, generator=torch.Generator().manual_seed(0))

INDEXED: dict[str, Function] = {
    "flip": lambda x: x.flip(1, 3),
    "roll": lambda x: x.roll((1, -2), (2, 3)),
    "roll of all": lambda x: x.roll(5),
    "pixel shuffle": lambda x: F.pixel_shuffle(x, 2),
    "pixel unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "index": lambda x, module: x[:, module.order],
    "index_select": lambda x, module: x.index_select(2, module.order),
    "reflected": lambda x: F.pad(x, (1, 2, 1, 1), "reflect"),
    "replicated": lambda x: F.pad(x, (1, 2, 1, 1), "replicate"),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "nearest, unequal": lambda x: F.interpolate(x, size=(18, 8)),
    "nearest, not whole": lambda x: F.interpolate(x, size=(9, 5)),
    "nearest, of a factor": lambda x: F.interpolate(x, scale_factor=1.7),
    "nearest, rows": lambda x: F.interpolate(x[:, :, 0], scale_factor=3),
    "linear": lambda x: F.interpolate(x[:, :, 0], scale_factor=2, mode="linear"),
}


def test_moves_by_constant_indices_equal_eager() -> None:
    check(Together(INDEXED), X)


def test_moves_by_constant_indices_between_convolutions_equal_eager() -> None:
    check(nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), Together(INDEXED)), X)
