"""Operators that move elements: views, slices, concatenations, padding."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from lowered import Together, check
from torch import nn

Function = Callable[..., torch.Tensor]

X = torch.randn(1, 4, 6, 8, generator=torch.Generator().manual_seed(0))

MOVES: dict[str, Function] = {
    "expand": lambda x: x[:, :1].expand(2, 4, -1, -1),
    "repeat": lambda x: x.repeat(1, 2, 1, 3),
    "repeat, new dimension": lambda x: x.repeat(2, 1, 1, 1, 2),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 1),
    "unbind": lambda x: torch.stack([y * 3 for y in x.unbind(1)], 0),
    "stack": lambda x: torch.stack([x, x * 2], -1),
    "step 2": lambda x: x[:, :, ::2],
    "step 3, rest": lambda x: x[:, :, 1::3, ::5],
    "channel shuffle": lambda x: F.channel_shuffle(x, 2),
    "slice_scatter": lambda x: torch.slice_scatter(x, x[:, 1:3] * 2, 1, 1, 3),
    "slice_scatter at the end": lambda x: torch.slice_scatter(x, x[:, 1:3] * 2, 1, -2),
    "select_scatter": lambda x: torch.select_scatter(x, x[:, 1] * 2, 2 - 1, 3),
    "pad and cut": lambda x: F.pad(x, (-1, 2, 3, -2)),
}


def test_moves_of_elements_equal_eager() -> None:
    check(Together(MOVES), X)


def test_moves_of_elements_between_convolutions_equal_eager() -> None:
    check(nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), Together(MOVES)), X)


IMAGE = torch.randn(1, 3, 13, 10, generator=torch.Generator().manual_seed(0))


def test_concatenations_of_up_to_nine_tensors_equal_eager() -> None:
    parts = [torch.randn(1, n, 4, 5) for n in range(1, 10)]
    for count in (2, 3, 4, 5, 6, 9):
        check(lambda *x: torch.cat(x, 1), *parts[:count])
    check(lambda x, y: torch.cat([x, y], -1), torch.randn(2, 3, 4), torch.randn(2, 3, 2))


IMAGE_MOVES = {
    "permute": lambda x: x.permute(3, 1, 0, 2),
    "to channels last and back": lambda x: x.permute(0, 2, 3, 1).exp().permute(0, 3, 1, 2),
    "transpose": lambda x: x.transpose(1, 3),
    "view": lambda x: x.reshape(1, 39, 10).exp().view(13, 30),
    "flatten": lambda x: x.exp().flatten(1),
    "squeeze": lambda x: x.exp().squeeze(0).unsqueeze(-1),
    "pad": lambda x: F.pad(x, (1, 2, 3, 4), value=0.5),
    "pad channels": lambda x: F.pad(x, (0, 0, 0, 0, 1, 2)),
    "slice": lambda x: x[:, 1:, 2:-3, -4:],
    "select": lambda x: x[:, 1] + x[:, -1],
    "split": lambda x: [y.exp() for y in x.split([1, 2], 1)] + [y * 2 for y in x.chunk(3, 2)],
    "unused parts": lambda x: x.split(1, 1)[1].exp(),
    "an empty part": lambda x: x.split([0, 3, 0], 1)[1].exp(),
}


@pytest.mark.parametrize("name", IMAGE_MOVES)
def test_a_move_of_elements_equals_eager(name: str) -> None:
    move = IMAGE_MOVES[name]

    def function(x: torch.Tensor) -> list[torch.Tensor]:
        moved = move(x)
        return [y * 2 for y in ([moved] if isinstance(moved, torch.Tensor) else moved)]

    check(function, IMAGE)


@pytest.mark.parametrize("name", IMAGE_MOVES)
def test_a_move_of_elements_between_convolutions_equals_eager(name: str) -> None:
    conv, move = torch.nn.Conv2d(3, 3, 3, padding=1), IMAGE_MOVES[name]
    check(lambda x: move(conv(x)), IMAGE)


def test_several_outputs_may_be_views_of_one_value() -> None:
    def function(x: torch.Tensor) -> list[torch.Tensor]:
        y = x * 2
        return [y, y.reshape(2, 3), y + 1, y.clone()]

    check(function, torch.randn(3, 2))
