"""Pooling, resizing, reductions and moving of elements."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from lowered import check, refusals

IMAGE = torch.randn(1, 3, 13, 10, generator=torch.Generator().manual_seed(0))

POOLINGS = {
    "max": lambda x: F.max_pool2d(x, 2),
    "max, overlapping": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max, rectangular": lambda x: F.max_pool2d(x, (3, 2), (1, 2), (1, 0)),
    "max, ceil": lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True),
    "max, ceil and padding": lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
    "max, ceil of two": lambda x: F.max_pool2d(x, 2, 2, 1, ceil_mode=True),
    "max, dilation": lambda x: F.max_pool2d(x, 2, 1, dilation=2),
    "average": lambda x: F.avg_pool2d(x, 2),
    "average, padding counts": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "average, padding does not count": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "average, ceil without effect": lambda x: F.avg_pool2d(x[..., :9], 3, 2, 1, ceil_mode=True),
    "adaptive to one": lambda x: F.adaptive_avg_pool2d(x, 1),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (1, 5)),
    "resize": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "resize, corners": lambda x: F.interpolate(x, size=(20, 33), mode="bilinear", align_corners=True),
    "resize, down": lambda x: F.interpolate(x, size=(7, 5), mode="bilinear"),
    "resize to one pixel": lambda x: F.interpolate(x, size=(1, 1), mode="bilinear", align_corners=True),
    "resize from one pixel": lambda x: F.interpolate(x[..., :1, :1], size=(4, 3), mode="bilinear", align_corners=True),
    "mean of pixels": lambda x: x.mean((2, 3)),
    "mean of pixels, kept": lambda x: x.mean((-1, -2), keepdim=True),
    "mean of rows": lambda x: x.mean(-1),
    "mean of channels": lambda x: x.mean(1, keepdim=True),
    "mean of height": lambda x: x.mean(2),
    "mean of all but the batch": lambda x: x.mean((1, 2, 3)),
    "sum": lambda x: x.sum((2, 3)),
    "softmax of the last": lambda x: x.softmax(-1),
    "softmax of channels": lambda x: x.softmax(1),
    "softmax of height": lambda x: x.softmax(2),
}


@pytest.mark.parametrize("name", POOLINGS)
def test_image_operator(name: str) -> None:
    check(POOLINGS[name], IMAGE)


@pytest.mark.parametrize("name", POOLINGS)
def test_between_convolutions(name: str) -> None:
    conv = torch.nn.Conv2d(3, 3, 3, padding=1)
    after = POOLINGS[name]
    check(lambda x: after(conv(x)), IMAGE)


@pytest.mark.parametrize(
    "function, reason",
    [
        (lambda x: F.max_pool2d(x, 1, 2), "kernel 1x1"),
        (lambda x: F.max_pool2d(x, 2, 3), "stride above kernel"),
        (lambda x: F.max_pool2d(x, 2, return_indices=True), "dtype int64"),
        (lambda x: F.avg_pool2d(x, 2, ceil_mode=True), "ceil_mode"),
    ],
)
def test_refusals(function: object, reason: str) -> None:
    assert reason in "; ".join(refusals(function, IMAGE).values())


def test_concatenation_of_many() -> None:
    parts = [torch.randn(1, n, 4, 5) for n in range(1, 10)]
    for count in (2, 3, 4, 5, 6, 9):
        check(lambda *x: torch.cat(x, 1), *parts[:count])
    check(lambda x, y: torch.cat([x, y], -1), torch.randn(2, 3, 4), torch.randn(2, 3, 2))


MOVES = {
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


@pytest.mark.parametrize("name", MOVES)
def test_moving_elements(name: str) -> None:
    move = MOVES[name]

    def function(x: torch.Tensor) -> list[torch.Tensor]:
        moved = move(x)
        return [y * 2 for y in ([moved] if isinstance(moved, torch.Tensor) else moved)]

    check(function, IMAGE)


@pytest.mark.parametrize("name", MOVES)
def test_moving_elements_between_convolutions(name: str) -> None:
    conv, move = torch.nn.Conv2d(3, 3, 3, padding=1), MOVES[name]
    check(lambda x: move(conv(x)), IMAGE)


def test_outputs_that_are_inputs_or_the_same() -> None:
    def function(x: torch.Tensor) -> list[torch.Tensor]:
        y = x * 2
        return [y, y.reshape(2, 3), y + 1, y.clone()]

    check(function, torch.randn(3, 2))
