"""Run convolutions and linear layers on the device."""

from __future__ import annotations

import pytest
import torch
from device_support import RUNTIMES, check_on_device
from torch import nn

IMAGE = torch.randn(1, 8, 13, 11)

# Layers and inputs of all paths: pointwise, depthwise, vectors of channels, single channels, groups that share a vector.
LAYERS = {
    "pointwise": (nn.Conv2d(8, 20, 1), IMAGE),
    "odd pointwise": (nn.Conv2d(3, 5, 1, bias=False), torch.randn(1, 3, 9, 7)),
    "strided pointwise": (nn.Conv2d(8, 4, 1, stride=2), IMAGE),
    "vectors": (nn.Conv2d(8, 12, 3, padding=1), IMAGE),
    "few channels": (nn.Conv2d(3, 8, (5, 3), stride=2, padding=(2, 0)), torch.randn(1, 3, 16, 15)),
    "odd channels": (nn.Conv2d(6, 7, 3, dilation=2, bias=False), torch.randn(1, 6, 12, 9)),
    "depthwise": (nn.Conv2d(8, 8, 3, padding=1, groups=8), IMAGE),
    "depthwise of even height": (nn.Conv2d(8, 8, 3, padding=1, groups=8), torch.randn(1, 8, 10, 7)),
    "strided depthwise": (nn.Conv2d(8, 8, 5, stride=2, padding=2, groups=8, bias=False), IMAGE),
    "dilated depthwise": (nn.Conv2d(8, 8, 3, padding=(0, 3), dilation=(1, 2), groups=8), IMAGE),
    "odd depthwise": (nn.Conv2d(5, 5, 3, padding=1, groups=5), torch.randn(1, 5, 7, 9)),
    "transposed": (nn.ConvTranspose2d(8, 12, 3, stride=2, padding=1, output_padding=1), IMAGE),
    "odd transposed": (nn.ConvTranspose2d(3, 5, (2, 3), stride=(1, 3), output_padding=(0, 1)), torch.randn(1, 3, 5, 4)),
    "line": (nn.Conv1d(4, 8, 3, padding=1), torch.randn(1, 4, 21)),
    "transposed line": (nn.ConvTranspose1d(4, 6, 4, stride=2, padding=1), torch.randn(1, 4, 10)),
}
# What executorch's registry does not have.
ONLY_EDGECORE = {
    "batch": (nn.Conv2d(8, 12, 3, padding=1), torch.randn(3, 8, 6, 5)),
    "groups of vectors": (nn.Conv2d(16, 8, 3, groups=2), torch.randn(1, 16, 8, 7)),
    "mixed groups": (nn.Conv2d(12, 6, 3, groups=3, bias=False), torch.randn(2, 12, 8, 7)),
    "multiplied depthwise": (nn.Conv2d(4, 8, 3, groups=4), torch.randn(1, 4, 8, 7)),
    "transposed groups": (nn.ConvTranspose2d(8, 12, 3, stride=2, groups=2), torch.randn(1, 8, 5, 4)),
    "transposed depthwise": (nn.ConvTranspose2d(4, 4, 3, dilation=2, groups=4), torch.randn(2, 4, 5, 4)),
}


@pytest.mark.parametrize("gpu_shaders", [False, True], ids=["default", "gpu"])
@pytest.mark.parametrize("name", [*LAYERS, *ONLY_EDGECORE])
def test_convolutions_of_all_kinds(name, gpu_shaders):
    layer, x = LAYERS.get(name) or ONLY_EDGECORE[name]
    runtimes = ("executorch-1.5",) if name in LAYERS else ("edgecore",)
    check_on_device(layer, x, runtimes=runtimes, load_options={"gpu_shaders": gpu_shaders})


@pytest.mark.parametrize("gpu_shaders", [False, True], ids=["default", "gpu"])
@pytest.mark.parametrize("name", ["pointwise", "few channels", "depthwise", "mixed groups", "transposed"])
def test_convolutions_in_fp16(name, gpu_shaders):
    layer, x = LAYERS.get(name) or ONLY_EDGECORE[name]
    runtimes = RUNTIMES if name in LAYERS else ("edgecore",)  # few weights stay fp32 with the runtime edgecore
    load_options = {"gpu_shaders": gpu_shaders}
    check_on_device(layer, x, runtimes=runtimes, tolerance=5e-3, load_options=load_options, force_fp16=True)


def test_convolutions_with_activations():
    model = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.ReLU6(), nn.Conv2d(8, 4, 1), nn.ReLU())
    check_on_device(model, 4 * torch.randn(1, 4, 6, 6))


class Residual(nn.Module):
    """Sums after layers: of the layer's input, of a clamped result, of the result itself, and one that is read twice."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.layer = {
            "pointwise": nn.Conv2d(40, 40, 1), "tiled": nn.Conv2d(40, 40, 1), "general": nn.Conv2d(40, 40, 3, padding=1),
            "depthwise": nn.Conv2d(40, 40, 3, padding=1, groups=40), "odd": nn.Conv2d(40, 38, 1),
            "linear": nn.Linear(40, 40),
        }[kind]  # fmt: skip
        self.first = nn.Linear(40, 40) if kind == "linear" else nn.Conv2d(40, 38 if kind == "odd" else 40, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        start = self.first(x)
        result = start + self.layer(x).relu()
        if self.kind == "odd":
            return result
        result = self.layer(result) + result
        twice = self.layer(result)
        return twice + result[..., :1] + (twice + result)


@pytest.mark.parametrize("gpu_shaders", [False, True], ids=["default", "gpu"])
@pytest.mark.parametrize("kind", ["pointwise", "tiled", "general", "depthwise", "odd", "linear"])
def test_sums_after_layers(kind, gpu_shaders):
    size = {"tiled": (8, 9), "linear": (33,)}.get(kind, (4, 6))
    x = torch.randn(*size, 40) if kind == "linear" else torch.randn(1, 40, *size)
    load_options = {"gpu_shaders": gpu_shaders}
    # For executorch, a view follows a linear layer.
    runtimes = ("edgecore" if kind == "linear" else "executorch-1.5",)
    check_on_device(Residual(kind), x, runtimes=runtimes, load_options=load_options)
    if kind in ("pointwise", "linear"):
        options = {"tolerance": 1e-2, "force_fp16": True}
        check_on_device(Residual(kind), x, runtimes=runtimes, load_options=load_options, **options)


@pytest.mark.parametrize("inputs", [16, 44, 48])
def test_pointwise_convolutions_of_many_pixels(inputs):
    sizes = {2: torch.export.Dim("height", min=2, max=16), 3: torch.export.Dim("width", min=2, max=16)}
    others = [(torch.randn(1, inputs, *size),) for size in ((2, 5), (3, 5), (7, 7), (16, 16), (13, 5))]
    check_on_device(
        nn.Conv2d(inputs, 7, 1),
        torch.randn(1, inputs, 14, 14),
        runtimes=("edgecore",),
        dynamic_shapes=(sizes,),
        others=others,
    )


def test_not_a_number_passes_through_convolutions():
    x = torch.randn(1, 4, 6, 6)
    x[0, 1, 2, 3], x[0, 2, 5, 5] = float("nan"), float("inf")
    check_on_device(nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.ReLU()), x, runtimes=("edgecore",))
    check_on_device(nn.Conv2d(4, 4, 3, padding=1, groups=4), x, runtimes=("edgecore",))


@pytest.mark.parametrize("gpu_shaders", [False, True], ids=["default", "gpu"])
@pytest.mark.parametrize(
    ("rows", "columns", "shape"),
    [(16, 24, (1, 16)), (16, 7, (5, 16)), (13, 8, (2, 3, 13)), (70, 130, (67, 70)), (9, 1, (4, 3, 5, 9))],
)
def test_linear_layers_of_all_sizes(rows, columns, shape, gpu_shaders):
    layer = nn.Linear(rows, columns, bias=columns != 7)
    load_options = {"gpu_shaders": gpu_shaders}
    check_on_device(layer, torch.randn(shape), runtimes=("edgecore",), load_options=load_options)
    fp16 = {"runtimes": ("edgecore",), "tolerance": 5e-3, "force_fp16": True}
    check_on_device(layer, torch.randn(shape), load_options=load_options, **fp16)


@pytest.mark.parametrize("gpu_shaders", [False, True], ids=["default", "gpu"])
def test_sizes_that_change_between_runs(gpu_shaders):
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.Conv2d(8, 5, 1)
    )
    sizes = {2: torch.export.Dim("height", min=4, max=40), 3: torch.export.Dim("width", min=4, max=40)}
    others = [(torch.randn(1, 3, *size),) for size in ((40, 40), (4, 9), (17, 8))]
    check_on_device(
        model,
        torch.randn(1, 3, 12, 10),
        runtimes=("edgecore",),
        dynamic_shapes=(sizes,),
        others=others,
        load_options={"gpu_shaders": gpu_shaders},
    )
