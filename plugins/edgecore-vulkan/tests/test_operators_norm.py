"""Norms, softmax, reductions, pooling, resizing and padding on the device."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from device_support import check_on_device
from torch import nn

IMAGE = torch.randn(2, 6, 7, 9)
INF, NAN = float("inf"), float("nan")


def rows(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def channels_last(function):
    """Return a model that calls `function` with an image whose channels are the innermost dim in memory."""
    return lambda a: function(F.max_pool2d(a, 1))


def between_pools(function):
    """Return a model where the result of `function` has its channels as the innermost dim, too."""
    return lambda a: F.max_pool2d(function(F.max_pool2d(a, 1)), 1)


SOFTMAX = {
    "short rows": (lambda a: (a.softmax(-1), a.log_softmax(0)), rows(5, 3)),
    "one element": (lambda a: (a.softmax(0), a.log_softmax(0)), rows(1)),
    "a long row": (lambda a: (a.softmax(1), a.log_softmax(1)), rows(1, 10007)),
    "every dim": (lambda a: tuple(a.softmax(dim) for dim in range(4)), rows(2, 5, 3, 130)),
    "channels last": (between_pools(lambda a: a.softmax(1).log_softmax(2)), IMAGE),
    "large numbers": (lambda a: (a.softmax(1), a.log_softmax(1)), rows(3, 40) * 1000),
    "infinities": (
        lambda a: (a.softmax(1), a.log_softmax(1)),
        torch.tensor([[-INF, 1, 2], [-INF, -INF, -INF], [INF, 1, 2], [NAN, 1, 2]]),
    ),
}
NORMS = {
    "layer": (nn.LayerNorm(130), rows(3, 5, 130)),
    "layer of one number": (nn.LayerNorm(1), rows(3, 1)),
    "layer with statistics": (
        lambda a: torch.native_layer_norm(a, (9,), torch.ones(9), torch.zeros(9), 1e-5),
        IMAGE,
    ),
    "layer of a long row": (nn.LayerNorm(5000), rows(2, 5000) + 100),
    "layer without weights": (lambda a: F.layer_norm(a, (10,)), rows(3, 10)),
    "layer of an image": (between_pools(lambda a: F.layer_norm(a, (9,))), IMAGE),
    "group": (nn.GroupNorm(3, 6), IMAGE),
    "group with statistics": (
        lambda a: torch.native_group_norm(F.max_pool2d(a, 1), torch.arange(6.0), None, 2, 6, 63, 3, 1e-3),
        IMAGE,
    ),
    "group with channels last": (channels_last(nn.GroupNorm(2, 6)), IMAGE),
    "group without weights": (lambda a: F.group_norm(a, 6), IMAGE),
    "rms": (nn.RMSNorm(130), rows(3, 5, 130)),
    "rms of an image": (channels_last(nn.RMSNorm(9)), IMAGE),
}
EVERY = ("mean", "sum", "amax", "amin")
REDUCTIONS = {
    "last dim": (lambda a: tuple(getattr(a, name)(-1) for name in EVERY), rows(3, 5, 67)),
    "first dim": (lambda a: tuple(getattr(a, name)(0, keepdim=True) for name in EVERY), rows(70, 5, 3)),
    "image": (channels_last(lambda a: tuple(getattr(a, name)((2, 3)) for name in EVERY)), IMAGE),
    "channels": (channels_last(lambda a: (a.mean(1), a.amax(1, keepdim=True), a.argmin(1))), IMAGE),
    "all": (lambda a: tuple(getattr(a, name)((0, 1, 2)) for name in EVERY), rows(3, 5, 40)),
    "a long row": (lambda a: (a.mean(1), a.amin(1), a.argmax(1)), rows(2, 30001)),
    "many columns": (lambda a: (a.mean(0), a.argmax(0)), rows(3, 16000)),
    "index": (lambda a: (a.argmax(), a.argmin(1), a.argmax(0, keepdim=True)), rows(30, 50)),
    "equal numbers": (lambda a: (a.argmax(1), a.argmin(1)), torch.tensor([[3.0, 1, 3] * 33, [1, 0, 0] * 33])),
    "NaN": (
        lambda a: (a.amax(1), a.amin(1), a.argmax(1), a.argmin(1), a.sum(1)),
        torch.tensor([[1, NAN, 5, NAN] * 20, [INF, -INF, 1, 2] * 20, [-INF] * 80]),
    ),
}
IMAGES = {
    "max pool": (nn.MaxPool2d(3, 2, 1), IMAGE),
    "max pool with dilation": (nn.MaxPool2d((3, 2), (1, 2), (1, 0), dilation=(2, 3)), IMAGE),
    "max pool rounded up": (nn.MaxPool2d(2, 2, ceil_mode=True), IMAGE),
    "max pool with channels last": (channels_last(nn.MaxPool2d(3)), IMAGE),
    "max pool of NaN": (
        nn.MaxPool2d(2, 1),
        torch.tensor([[NAN, 1, 2, -INF], [1, 3, -INF, -INF], [0, NAN, INF, 5]]).expand(1, 5, -1, -1).clone(),
    ),
    "average pool": (nn.AvgPool2d(3, 2, 1), IMAGE),
    "average pool without padding": (nn.AvgPool2d(3, 2, 1, count_include_pad=False), IMAGE),
    "average pool rounded up": (nn.AvgPool2d((3, 2), (2, 3), 1, ceil_mode=True), IMAGE),
    "average pool with divisor": (nn.AvgPool2d(2, divisor_override=3), IMAGE),
    "adaptive average pool": (channels_last(nn.AdaptiveAvgPool2d((7, 3))), IMAGE),
    "nearest": (lambda a: F.interpolate(a, scale_factor=2), IMAGE),
    "nearest to a size": (lambda a: F.interpolate(a, (5, 20)), IMAGE),
    "nearest by a fraction": (channels_last(lambda a: F.interpolate(a, scale_factor=(1.7, 0.6))), IMAGE),
    "bilinear": (lambda a: F.interpolate(a, scale_factor=2, mode="bilinear"), IMAGE),
    "bilinear to a size": (lambda a: F.interpolate(a, (5, 20), mode="bilinear"), IMAGE),
    "bilinear by a fraction": (
        lambda a: F.interpolate(a, scale_factor=1.7, mode="bilinear", recompute_scale_factor=False),
        IMAGE,
    ),
    "bilinear with aligned corners": (
        channels_last(lambda a: F.interpolate(a, (13, 1), mode="bilinear", align_corners=True)),
        IMAGE,
    ),
    "pixel shuffle": (lambda a: F.pixel_shuffle(a, 2) + 1, rows(2, 12, 3, 5)),
    "pixel shuffle with channels last": (channels_last(nn.PixelShuffle(3)), rows(1, 9, 4, 3)),
    "pad": (lambda a: F.pad(a, (1, 2, 0, 3)), IMAGE),
    "pad with a number": (channels_last(lambda a: F.pad(a, (1, 0, 0, 2, 3, 1), value=-1.5)), IMAGE),
    "crop": (channels_last(lambda a: F.pad(a, (-1, 2, -3, -1))), IMAGE),
    "pad every dim": (lambda a: F.pad(a, (1, 1, 2, 0, 0, 1, 1, 2), value=INF), rows(2, 3, 1, 5)),
    "pad a row": (lambda a: F.pad(a, (3, 2)), rows(4)),
    "flip": (channels_last(lambda a: (a.flip(3), a.flip(1, 2), a.flip(0))), IMAGE),
}


HALF = [
    SOFTMAX["every dim"],
    SOFTMAX["infinities"],
    NORMS["layer"],
    NORMS["group with statistics"],
    NORMS["rms of an image"],
    REDUCTIONS["image"],
    REDUCTIONS["equal numbers"],
    REDUCTIONS["NaN"],
    IMAGES["max pool of NaN"],
    IMAGES["average pool"],
    IMAGES["nearest"],
    IMAGES["bilinear"],
    IMAGES["pad every dim"],
]


def run_case(case, **options) -> None:
    model, *inputs = case
    check_on_device(model, *inputs, **options)


@pytest.mark.parametrize("name", SOFTMAX)
def test_softmax_matches_pytorch(name):
    run_case(SOFTMAX[name])


@pytest.mark.parametrize("name", NORMS)
def test_norms_match_pytorch(name):
    run_case(NORMS[name])


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_match_pytorch(name):
    run_case(REDUCTIONS[name])


@pytest.mark.parametrize("name", IMAGES)
def test_images_match_pytorch(name):
    run_case(IMAGES[name])


@pytest.mark.parametrize("case", HALF)
def test_results_in_half_precision(case):
    run_case(case, runtimes=["edgecore"], tolerance=1e-2, force_fp16=True)


def test_integers_and_booleans_are_padded_and_flipped():
    def model(a, b, c):
        return F.pad(a, (1, -2, 0, 1), value=7), F.pad(b, (0, 1), value=True), F.pad(b, (1, 0)), a.flip(0), c.exp()

    check_on_device(model, torch.arange(20).view(4, 5), torch.arange(6).view(2, 3) % 2 > 0, rows(2))


def test_sizes_change_between_runs():
    def model(a):
        x = F.layer_norm(a.softmax(-1), (16,)).transpose(0, 1)
        return x.log_softmax(0), x.mean(0), x.argmax(0), F.pad(x, (1, 2))

    length = torch.export.Dim("length", min=1, max=300)
    others = [(rows(size, 16),) for size in (1, 300)]
    check_on_device(model, rows(7, 16), dynamic_shapes=(({0: length},),), others=others)
