"""Norms, softmax, reductions, pooling, resizing and padding on the device."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from device_support import check_on_device
from torch import nn

import edgecore

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


def every(dims, keepdim: bool = False):
    """Return a model with each reduction to a number over the same dims."""
    return lambda a: tuple(getattr(a, name)(dims, keepdim) for name in ("mean", "sum", "amax", "amin"))


def resize(*targets, **options):
    """Return a model that resizes an image in several ways."""
    return lambda a: tuple(F.interpolate(a, **target, **options) for target in targets)


class Norms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.rms = nn.LayerNorm(130), nn.RMSNorm(130)

    def forward(self, x):
        return self.layer(x) * 2 + F.layer_norm(x, (130,)), self.rms(x) + 1


TARGETS = ({"scale_factor": 2}, {"size": (5, 20)}, {"scale_factor": (1.7, 0.6)})
SOFTMAX = {
    "every dim": (
        lambda a: tuple(f(a, dim) for dim in range(4) for f in (F.softmax, F.log_softmax)),
        rows(2, 5, 3, 130),
    ),
    "one element": (lambda a: (a.softmax(0), a.log_softmax(0)), rows(1)),
    "a long row": (lambda a: (a.softmax(1), a.log_softmax(1)), rows(1, 10007)),
    "channels last": (between_pools(lambda a: a.softmax(1).log_softmax(2)), IMAGE),
    "large numbers": (lambda a: (a.softmax(1), a.log_softmax(1)), rows(3, 40) * 1e5),
    "infinities": (
        lambda a: (a.softmax(1), a.log_softmax(1)),
        torch.tensor([[-INF, 1, 2], [-INF, -INF, -INF], [INF, 1, 2], [NAN, 1, 2]]),
    ),
}
NORMS = {
    "layer and rms": (Norms(), rows(3, 5, 130)),
    "layer of one number": (nn.LayerNorm(1), rows(3, 1)),
    "layer of a long row": (nn.LayerNorm(5000), rows(2, 5000) + 100),
    "layer of an image": (between_pools(lambda a: F.layer_norm(a, (9,))), IMAGE),
    "layer with statistics": (
        lambda a: torch.native_layer_norm(a, (9,), torch.ones(9), torch.zeros(9), 1e-5),
        IMAGE,
    ),
    "group": (nn.Sequential(nn.GroupNorm(3, 6), nn.GroupNorm(6, 6, affine=False)), IMAGE),
    "group with statistics": (
        channels_last(lambda a: torch.native_group_norm(a, torch.arange(6.0), None, 2, 6, 63, 3, 1e-3)),
        IMAGE,
    ),
}
REDUCTIONS = {
    "last dim": (every(-1), rows(3, 5, 67)),
    "first dim": (every(0, keepdim=True), rows(300, 5, 3)),
    "image": (channels_last(every((2, 3))), IMAGE),
    "channels": (channels_last(lambda a: (a.mean(1), a.amax(1, keepdim=True), a.argmin(1))), IMAGE),
    "all": (every((0, 1, 2)), rows(3, 5, 40)),
    "a long row": (lambda a: (a.mean(1), a.amin(1), a.argmax(1)), rows(2, 30001)),
    "many columns": (lambda a: (a.mean(0), a.argmax(0)), rows(3, 16000)),
    "index": (lambda a: (a.argmax(), a.argmin(1), a.argmax(0, keepdim=True)), rows(30, 50)),
    "equal numbers": (lambda a: (a.argmax(1), a.argmin(1)), torch.tensor([[3.0, 1, 3] * 133, [1, 0, 0] * 133])),
    "NaN": (
        lambda a: (a.amax(1), a.amin(1), a.argmax(1), a.argmin(1), a.sum(1)),
        torch.tensor([[1, NAN, 5, NAN] * 100, [INF, -INF, 1, 2] * 100, [-INF] * 400]),
    ),
}
IMAGES = {
    "max pool": (
        lambda a: (
            F.max_pool2d(a, 3, 2, 1),
            F.max_pool2d(a, (3, 2), (1, 2), (1, 0), dilation=(2, 3)),
            F.max_pool2d(a, 2, ceil_mode=True),
        ),
        IMAGE,
    ),
    "max pool of NaN": (
        nn.MaxPool2d(2, 1),
        torch.tensor([[NAN, 1, 2, -INF], [1, 3, -INF, -INF], [0, NAN, INF, 5]]).expand(1, 5, -1, -1).clone(),
    ),
    "average pool": (
        lambda a: (
            F.avg_pool2d(a, 3, 2, 1),
            F.avg_pool2d(a, 3, 2, 1, count_include_pad=False),
            F.avg_pool2d(a, (3, 2), (2, 3), 1, ceil_mode=True),
            F.avg_pool2d(a, 2, divisor_override=3),
            F.adaptive_avg_pool2d(a, (7, 3)),
        ),
        IMAGE,
    ),
    "nearest": (resize(*TARGETS), IMAGE),
    "bilinear": (resize(*TARGETS, mode="bilinear"), IMAGE),
    "aligned corners": (resize({"scale_factor": 2}, {"size": (13, 1)}, mode="bilinear", align_corners=True), IMAGE),
    "pixel shuffle": (lambda a: F.pixel_shuffle(a, 2) + 1, rows(2, 12, 3, 5)),
    "pixel shuffle of channels last": (channels_last(nn.PixelShuffle(3)), rows(1, 9, 4, 3)),
    "pad": (lambda a: (F.pad(a, (1, 2, 0, 3)), F.pad(a, (1, 1, 2, 0, 0, 1, 1, 2), value=INF)), IMAGE),
    "pad channels last": (
        channels_last(lambda a: (F.pad(a, (1, 0, 0, 2, 3, 1), value=-1.5), F.pad(a, (-1, 2, -3, -1)))),
        IMAGE,
    ),
    "flip": (channels_last(lambda a: (a.flip(3), a.flip(1, 2), a.flip(0))), IMAGE),
}
CASES = {
    f"{family}, {name}": case
    for family, cases in (("softmax", SOFTMAX), ("norm", NORMS), ("reduction", REDUCTIONS), ("image", IMAGES))
    for name, case in cases.items()
}
HALF = (
    "softmax, every dim", "softmax, infinities", "norm, layer and rms", "norm, group with statistics",
    "reduction, image", "reduction, equal numbers", "reduction, NaN", "image, max pool of NaN", "image, average pool",
    "image, nearest", "image, bilinear", "image, pad",
)  # fmt: skip
"""Cases whose results do not depend on the bits of the inputs that fp16 does not hold."""


@pytest.mark.parametrize("name", CASES)
def test_results_match_pytorch(name):
    model, x = CASES[name]
    check_on_device(model, x)


@pytest.mark.parametrize("name", HALF)
def test_results_in_half_precision(name):
    model, x = CASES[name]
    check_on_device(model, x, runtimes=["edgecore"], tolerance=1e-2, force_fp16=True)


@pytest.mark.parametrize(
    "name", ["norm, layer and rms", "norm, group with statistics", "reduction, image", "image, bilinear"]
)
def test_shaders_of_gpus_match_pytorch(name):
    model, x = CASES[name]
    check_on_device(model, x, runtimes=["edgecore"], load_options={"gpu_shaders": True})


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


def test_tensors_of_six_dims():
    def model(a):
        return a.sum((1, 3, 5)), a.softmax(2), F.pad(a, (1, 0, 0, 0, -1, 2)), a.flip(1, 4), a.argmax(4)

    check_on_device(model, rows(2, 3, 2, 5, 3, 4), runtimes=["edgecore"])


def test_half_precision_models():
    def model(a):
        return F.layer_norm(a, (16,)), a.log_softmax(0), a.mean(1), a.argmin(0), F.max_pool2d(a[None, None], 2)

    check_on_device(model, rows(6, 16).half(), tolerance=1e-2)


LONG = torch.randn(1, 300_000)


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (lambda x: x.mean(1), [LONG]),
        (lambda x: torch.softmax(x, 1) * 300_000, [LONG]),
        (lambda x: x.mean(1), [torch.randn(300, 70_000)]),
    ],
)
def test_long_rows_are_summed_to_their_end(function, inputs):
    check_on_device(function, *inputs, runtimes=["edgecore"], tolerance=1e-3)


@pytest.mark.parametrize("shapes", [((2, 300_000), (300_000, 3)), ((2, 280_000), (3, 280_000))])
def test_software_devices_refuse_sums_of_too_many_terms(shapes):
    # llvmpipe would end the loop early, without a word.
    function = torch.mm if shapes[0][1] == shapes[1][0] else torch.nn.functional.linear
    with pytest.raises(edgecore.errors.ExecutionError, match="a software device ends after 65535"):
        check_on_device(function, *map(torch.randn, shapes), runtimes=["edgecore"])
