"""Comparisons, logic, rounding and indices, composed: equal to eager to the last bit, on both runtimes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from lowered import check, check_sizes, refusals
from torch import nn
from torch.export import Dim

import edgecore

Function = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

GENERATOR = torch.Generator().manual_seed(0)
EDGES = torch.tensor(
    [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -0.5, -1.5, 3e38, -3e38, 1e-30, -1e-30, 8388609.0, 4194304.5, 1e20]
)
X = torch.cat([EDGES, torch.randn(176, generator=GENERATOR) * 3]).reshape(1, 4, 6, 8)
Y = torch.cat([EDGES.flip(0), X.flatten()[16:100], torch.randn(92, generator=GENERATOR)]).reshape(1, 4, 6, 8)

COMPARISONS: dict[str, Function] = {
    "eq": lambda x, y: (x == y).float(),
    "ne": lambda x, y: (x != y) * 1.0,
    "lt": lambda x, y: torch.where(x < y, x, y),
    "le": lambda x, y: torch.where(x <= y, 1.0, y),
    "gt": lambda x, y: torch.where(x > 0, x, -y),
    "ge": lambda x, y: (x >= 1.5).float(),
    "lt a number": lambda x, y: (x < 0).float() + (x <= 0).float() + (x < -1).float(),
    "ge 0": lambda x, y: (x >= 0).float() + (x == 0).float() + (0.5 > x).float(),
    "of sums": lambda x, y: (x + y.mean(1, keepdim=True) > 0.1).float(),
}
LOGIC: dict[str, Function] = {
    "and, or, not": lambda x, y: x.masked_fill((x > 0) & (y > 0) | ~(x > y), 0.5),
    "xor": lambda x, y: x.masked_fill((x > 0) ^ (y > 0), -1.0),
    "of numbers": lambda x, y: torch.logical_and(x, y).float() + torch.logical_not(x).float(),
    "any": lambda x, y: (x > 2).any(1, keepdim=True) * x,
    "all": lambda x, y: (x > -2).all(-1).float(),
    "moved": lambda x, y: torch.where((x[:, :1] > 0).expand(1, 4, 6, 8).transpose(2, 3).reshape(1, 4, 6, 8), x, y),
    "to truth": lambda x, y: x.bool().float() + x.relu().bool() * y.sign(),
    "truth by truth": lambda x, y: torch.where(x > 0, y > 0, x > y).float(),
}
FILLED: dict[str, Function] = {
    "masked_fill": lambda x, y: x.masked_fill(y < 0, -1e9),
    "masked_fill, -inf": lambda x, y: x.masked_fill(y < 0, -torch.inf).clamp(min=-5),
    "where of two numbers": lambda x, y: torch.where(x > y, -torch.inf, 3.0).clamp(min=-5),
    "hardshrink": lambda x, y: F.hardshrink(x),
    "threshold": lambda x, y: F.threshold(x, 0.1, 0.2),
    "smooth l1": lambda x, y: F.smooth_l1_loss(x.clamp(-5, 5), y.clamp(-5, 5), reduction="none"),
}
ROUNDED: dict[str, Function] = {
    "sign": lambda x, y: x.sign(),
    "round": lambda x, y: x.round(),
    "trunc": lambda x, y: x.trunc(),
    "frac": lambda x, y: x.frac(),
    "round of many": lambda x, y: (y.clamp(-9, 9) * 4096).round(),
}
INDICES: dict[str, Callable[[torch.Tensor], Any]] = {
    "channels": lambda x: x.max(1),
    "the last": lambda x: (x / 2).max(-1, keepdim=True),
    "equals": lambda x: x.sign().max(2),
    "the min": lambda x: x.min(3),
    "a row": lambda x: x.reshape(1, 192).max(1),
    "of one": lambda x: x[:, 1:2].max(1),
}
PLACES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "channels": lambda x: x.argmax(1),
    "the last": lambda x: (x * 2).argmax(-1, keepdim=True),
    "equals": lambda x: x.sign().argmax(2),
    "the min": lambda x: x.argmin(3),
    "the min of equals": lambda x: x.sign().argmin(1, keepdim=True),
    "a row": lambda x: x.reshape(1, 192).argmax(1),
    "of all": lambda x: x.argmax(),
    "the min of all": lambda x: (x + 1).argmin(keepdim=True),
    "of a single one": lambda x: x.reshape(192).argmin(0),
    "of one": lambda x: x[:, :1].argmin(1),
    "without the maxima": lambda x: x.max(1)[1],
    "of -inf": lambda x: torch.where(x > -9e9, -torch.inf, x).argmax(2),
}


class Together(nn.Module):
    def __init__(self, functions: dict[str, Function]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [function(x, y) for function in self.functions.values()]


@pytest.mark.parametrize("group", [COMPARISONS, LOGIC, FILLED, ROUNDED], ids=lambda group: next(iter(group)))
def test_comparisons_logic_and_rounding_equal_eager_exactly(group: dict[str, Function]) -> None:
    check(Together(group), X, Y, tolerance=0)


def test_extremes_with_their_indices_equal_eager() -> None:
    check(lambda x: [part for function in INDICES.values() for part in function(x)], X, tolerance=0)


def test_indices_of_extremes_equal_eager() -> None:
    found = check(lambda x: [function(x) for function in PLACES.values()], X, tolerance=0)
    assert found["ArgMaxPooling2d"] == len(PLACES)


def test_indices_of_extremes_after_a_layer_of_several_sizes_equal_eager() -> None:
    net, sizes = nn.Linear(6, 9).requires_grad_(False), (({0: Dim("batch", min=1, max=4)},),)
    calls = [(torch.randn(batch, 5, 6),) for batch in (2, 1, 4, 1)]
    check_sizes(lambda x: [net(x).argmax(-1), net(x).argmin(1)], calls, sizes)


def test_nan_is_the_max_only_where_it_is_the_first() -> None:
    """Unlike eager, where the first NaN is the max wherever it is."""
    rows = torch.tensor([[torch.nan, 1.0, 2.0], [1.0, torch.nan, 2.0], [1.0, 2.0, torch.nan]])
    program = edgecore.compile(Together({"": lambda x, y: x.argmax(1)}).eval(), (rows, rows), backends=["xnnpack"])
    assert edgecore.load(program.buffer).forward(rows, rows).tolist() == [0, 2, 1]


def test_scores_and_classes_of_a_detector_equal_eager() -> None:
    net = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 21, 1))
    found = check(lambda x: list(net(x).flatten(2).max(1)), torch.randn(1, 4, 9, 7))
    assert found["ArgMaxPooling2d"] == 1


def test_infinities_are_equal_to_themselves() -> None:
    x, y = (
        torch.tensor([torch.inf, -torch.inf, torch.inf, 1.0]),
        torch.tensor([torch.inf, -torch.inf, -torch.inf, torch.inf]),
    )
    check(
        Together({"eq": lambda x, y: (x == y).float(), "gt": lambda x, y: torch.where(x > y, 1.0, 2.0)}),
        x,
        y,
        tolerance=0,
    )


def test_attention_with_a_computed_mask_equals_eager() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        scores = (x @ x.transpose(1, 2)).masked_fill(x.sum(-1)[:, None] < 0, -torch.inf)
        return scores.softmax(-1) @ x

    check(function, torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(3)))


@pytest.mark.parametrize(
    ("function", "operator", "reason"),
    [
        (lambda x, y: x > y, "aten.gt.Tensor", "its booleans are read outside"),
        (lambda x, y: x.masked_fill(y.bool().cumsum(1) > 1, 0.0), "aten.masked_fill.Scalar", "booleans that are computed outside"),
        (lambda x, y: x.exp() * (x != x[:]), "aten.ne.Tensor", "compares a tensor with itself"),
        (lambda x, y: x.exp() * (x == -torch.inf), "aten.eq.Scalar", "a comparison with -inf"),
        (lambda x, y: x.exp().reshape(1, 192).repeat(1, 400).argmax(1), "aten.argmax.default", "a maximum of 76800 elements"),
        (lambda x, y: torch.where((x > 0) + (y > 0), x, y), "aten.add.Tensor", "a sum of booleans"),
    ],
)  # fmt: skip
def test_comparisons_outside_are_reported_with_their_reason(function: Function, operator: str, reason: str) -> None:
    assert reason in refusals(function, X, Y)[operator]


def test_comparisons_in_batches_of_several_sizes_equal_eager() -> None:
    def function(x: torch.Tensor) -> list[torch.Tensor]:
        return [torch.where(x > 0.1, x, x.mean(1, keepdim=True)), *x.max(1)]

    calls = [(torch.randn(batch, 5, generator=torch.Generator().manual_seed(batch)),) for batch in (3, 1, 8)]
    check_sizes(function, calls, (({0: Dim("batch", min=1, max=8)},),))
