"""Pooling, resizing, reductions and moving of elements."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from lowered import Call, Together, check, refusals
from torch import nn

import edgecore

IMAGE = torch.randn(1, 3, 13, 10, generator=torch.Generator().manual_seed(0))

POOLINGS = {
    "max": lambda x: F.max_pool2d(x, 2),
    "max, overlapping": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max, rectangular": lambda x: F.max_pool2d(x, (3, 2), (1, 2), (1, 0)),
    "max, ceil": lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True),
    "max, ceil and padding": lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
    "max, ceil of two": lambda x: F.max_pool2d(x, 2, 2, 1, ceil_mode=True),
    "max, dilation": lambda x: F.max_pool2d(x, 2, 1, dilation=2),
    "max, dilation and ceil": lambda x: F.max_pool2d(x, 3, 2, 1, dilation=2, ceil_mode=True),
    "max, dilation and ceil without padding": lambda x: F.max_pool2d(
        x, (2, 3), (2, 3), dilation=(3, 2), ceil_mode=True
    ),
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
def test_an_operator_of_images_equals_eager(name: str) -> None:
    check(POOLINGS[name], IMAGE)


@pytest.mark.parametrize("name", POOLINGS)
def test_an_operator_of_images_between_convolutions_equals_eager(name: str) -> None:
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
def test_poolings_outside_are_reported_with_their_reason(function: object, reason: str) -> None:
    assert reason in "; ".join(refusals(function, IMAGE).values())


def test_poolings_with_lists_of_one_number_equal_eager() -> None:
    aten = torch.ops.aten
    check(lambda x: aten.max_pool2d(x, [3], [2], [1], [1]), torch.randn(1, 3, 9, 8))
    check(lambda x: aten.max_pool2d_with_indices(x, [3], [2], [1], [2])[0], torch.randn(1, 3, 9, 8))
    check(lambda x: aten.avg_pool2d(x, [3], [2], [1]), torch.randn(1, 3, 9, 8))
    check(lambda x: aten.avg_pool2d(x, [2]), torch.randn(1, 3, 9, 8))


Function = Callable[..., torch.Tensor]

X = torch.randn(1, 4, 6, 8, generator=torch.Generator().manual_seed(0))

COMPOSED_POOLINGS: dict[str, Function] = {
    "average of a sequence": lambda x: F.avg_pool1d(x[:, :, 0], 3, 2, 1),
    "adaptive of a sequence": lambda x: F.adaptive_avg_pool1d(x[:, :, 0], 1),
    "adaptive of a sequence, to 3": lambda x: F.adaptive_avg_pool1d(x[:, :, 0], 3),
    "adaptive, windows of several sizes": lambda x: F.adaptive_avg_pool2d(x, (4, 5)),
    "adaptive maximum": lambda x: F.adaptive_max_pool2d(x, (3, 2)),
    "global maximum": lambda x: F.adaptive_max_pool2d(x, 1),
    "divisor": lambda x: F.avg_pool2d(x, 2, 1, 1, divisor_override=3),
    "dilation with padding": lambda x: F.max_pool2d(x, 2, 1, 1, dilation=2),
}


def test_composed_poolings_equal_eager() -> None:
    check(Together(COMPOSED_POOLINGS), X)


def test_composed_poolings_between_convolutions_equal_eager() -> None:
    check(nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), Together(COMPOSED_POOLINGS)), X)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_maximum_of_a_window_with_nan_is_nan(dtype: torch.dtype) -> None:
    """NaN at each place of windows with fewer elements than a kernel reads at once, as many, and more."""
    poolings: list[tuple[int, Callable[[torch.Tensor], torch.Tensor]]] = [
        (2, lambda x: F.max_pool2d(x, 2)),
        (3, lambda x: F.max_pool2d(x, 3)),
        (3, lambda x: F.max_pool2d(x, 3, 2, 1)),
        (3, lambda x: F.max_pool2d(x, 2, 1, dilation=2)),
        (5, lambda x: F.max_pool2d(x, 5)),
        (4, lambda x: F.relu(F.max_pool2d(x, 2))),
        (5, lambda x: F.adaptive_max_pool2d(x, 1)),
        (5, lambda x: x.amax((2, 3))),
        (5, lambda x: x.amin((2, 3))),
    ]
    for size, function in poolings:
        # One image for each place of the NaN; the channels are more than a register has.
        x = torch.randn(size * size, 7, size, size, generator=torch.Generator().manual_seed(0)).to(dtype)
        for place in range(size * size):
            x[place, :, place // size, place % size] = torch.nan
        program = edgecore.compile(Call(function).eval(), (x,), backends=[edgecore.Backend("xnnpack", required=True)])
        torch.testing.assert_close(
            edgecore.load(program.buffer).forward(x), function(x), rtol=0, atol=0, equal_nan=True
        )
