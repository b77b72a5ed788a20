"""Inputs, weights and inner values in channels last or another layout: delegated, and right, as contiguous ones are."""

from __future__ import annotations

import sys
from functools import partial
from importlib.util import find_spec

import numpy
import pytest
import torch
from torch import nn
from zoo import torchvision_models

import edgecore
from edgecore.errors import ExecutionError

BACKENDS = [
    name
    for name in ("xnnpack", "openvino", "vulkan", "ethosu", "vgf", "qnn", "coreml")
    if find_spec(f"edgecore_{name}") is not None
]
ROUNDING = {"qnn": 5e-3}
"""Largest error beside the largest value; QNN computes in float16."""
LAST = torch.channels_last


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x):
        x = self.first(x)
        return torch.relu(x + self.second(x))


class Attention(nn.Module):
    """Attention over the pixels of an image."""

    def __init__(self):
        super().__init__()
        self.conv, self.inputs, self.outputs = nn.Conv2d(3, 8, 4, stride=4), nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x):
        rows = self.conv(x).flatten(2).transpose(1, 2)
        q, k, v = self.inputs(rows).chunk(3, -1)
        return self.outputs(nn.functional.scaled_dot_product_attention(q, k, v))


class Inner(nn.Module):
    """Layouts inside: the images, and a reshape that only channels last allows."""

    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 4, 3), nn.Linear(4, 2)

    def forward(self, x):
        x = torch.relu(self.conv(x.to(memory_format=LAST))).contiguous(memory_format=LAST)
        return self.head(x.permute(0, 2, 3, 1).reshape(x.shape[0], -1, 4)), x


def image(channels=3):
    return torch.randn(1, channels, 12, 12)


MODELS = {
    "conv and relu": lambda: (nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()), image()),
    "conv, pools and linear": lambda: (
        nn.Sequential(nn.Conv2d(3, 8, 3), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)),
        image(),
    ),
    "residual": lambda: (Residual(), image()),
    "depthwise": lambda: (
        nn.Sequential(nn.Conv2d(3, 3, 3, groups=3), nn.BatchNorm2d(3), nn.Hardswish(), nn.Conv2d(3, 5, 1)),
        image(),
    ),
    "one channel": lambda: (nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 1, 1)), image(1)),
    "attention": lambda: (Attention(), image()),
    "inner": lambda: (Inner(), image()),
    "norms and resize": lambda: (
        nn.Sequential(nn.GroupNorm(3, 3), nn.Upsample(scale_factor=2, mode="bilinear"), nn.PixelShuffle(1), nn.GELU()),
        image(),
    ),
}


def permuted(x):
    """The same values in a dense layout that is neither contiguous nor channels last."""
    return x.movedim(1, -1).contiguous().movedim(-1, 1).transpose(0, -1).clone().transpose(0, -1)


def from_numpy(x):
    """The same values, as a view of an NHWC array."""
    return torch.from_numpy(x.numpy().transpose(0, 2, 3, 1).copy()).permute(0, 3, 1, 2)


def results(value):
    return value if isinstance(value, (tuple, list)) else (value,)


def delegated(program):
    """The number of operators in delegates, and of those outside; copies do not count."""
    rows = [row for row in program.report().rows if row.operator not in ("aten.clone.default", "aten._to_copy.default")]
    inside = [row for row in rows if row.where != "edgecore"]
    return len(inside), len(rows) - len(inside)


def load(program):
    options = {"coreml": {"standin": sys.executable}} if "CoreMLBackend" in program.report().delegates else None
    return edgecore.load(program.buffer, options=options)


def check(model, x, examples, backends, tolerance=1e-5, others=(), **options):
    """Compile for an input, and for the same values in other layouts: the same operators, the same numbers.

    `others` are programs whose delegated operators and numbers must be the same, too. Returns the outputs.
    """
    compile_ = partial(edgecore.compile, model, backends=backends, **options)
    plain = compile_((x,))
    expected = results(load(plain).forward(x))
    for other in [*(compile_((example,)) for example in examples), *others]:
        assert delegated(other) == delegated(plain)
        loaded = load(other)
        for y in (x, *examples):
            for result, value in zip(results(loaded.forward(y)), expected, strict=True):
                assert float((result - value).abs().max()) <= tolerance * float(value.abs().max())
    return plain, expected


def compare(outputs, model, x, tolerance):
    with torch.no_grad():
        for result, expected in zip(outputs, results(model(x)), strict=True):
            assert float((result - expected).abs().max()) <= tolerance * float(expected.abs().max())


SLOW = ("vgf", "qnn", "coreml")
"""Backends that get a part of the models, because their compilers take long."""
FLOAT_BACKENDS = [
    (),
    *(
        pytest.param([name], marks=() if name == "xnnpack" else pytest.mark.slow)
        for name in BACKENDS
        if name != "ethosu"
    ),
]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("backends", FLOAT_BACKENDS, ids=lambda names: "+".join(names) or "kernels")
def test_an_example_in_another_layout_is_compiled_as_a_contiguous_one(backends, name):
    if {*backends}.intersection(SLOW) and name != "conv, pools and linear":
        pytest.skip("takes long")
    torch.manual_seed(0)
    model, x = MODELS[name]()
    tolerance = ROUNDING.get("+".join(backends), 1e-5)
    _, outputs = check(model.eval(), x, (from_numpy(x), permuted(x)), backends)
    compare(outputs, model, x, tolerance)


@pytest.mark.parametrize("backends", [(), ("openvino",), ("xnnpack", "openvino")], ids=str)
def test_weights_in_channels_last_change_nothing(backends):
    if not {*backends} <= {*BACKENDS}:
        pytest.skip("a backend is not installed")
    torch.manual_seed(0)
    model, x = MODELS["conv, pools and linear"]()
    plain, outputs = check(model.eval(), x, (from_numpy(x),), backends)
    model.to(memory_format=LAST)
    other, again = check(model, x, (from_numpy(x),), backends)
    assert delegated(other) == delegated(plain)
    assert torch.allclose(outputs[0], again[0], atol=1e-5)
    assert model[0].weight.stride() == (27, 1, 9, 3)  # the user's weight is as before


@pytest.mark.parametrize("backends", [(), *([name] for name in BACKENDS if name in ("xnnpack", "openvino"))], ids=str)
def test_volumes_in_channels_last_3d_are_compiled_as_contiguous_ones(backends):
    torch.manual_seed(0)
    x = torch.randn(1, 3, 4, 6, 5)
    model = nn.Sequential(nn.Conv3d(3, 4, 2), nn.ReLU(), nn.AvgPool3d(2)).eval()
    _, outputs = check(model, x, (x.to(memory_format=torch.channels_last_3d), permuted(x)), backends)
    compare(outputs, model, x, 1e-5)


class Convert3d(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x.contiguous(memory_format=torch.channels_last_3d) * 2)


class Loop(nn.Module):
    """A layout inside of a branch."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 1)

    def forward(self, x):
        def convolve(x):
            return (torch.relu(self.conv(x.contiguous(memory_format=LAST))) + 1).contiguous()

        return torch.cond(x.sum() > 1e9, lambda x: (x * 2).contiguous(), convolve, (x,))


class Window(nn.Module):
    """A buffer in channels last, which each call moves on."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 1)
        self.register_buffer("last", torch.randn(1, 3, 12, 12).to(memory_format=LAST))

    def forward(self, x):
        y = torch.relu(self.conv(x + self.last))
        self.last.copy_(y)
        return y * 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "backends", [(), *([name] for name in BACKENDS if name in ("xnnpack", "openvino", "vulkan"))], ids=str
)
def test_layouts_in_branches_state_and_volumes_give_the_numbers_of_eager(backends):
    torch.manual_seed(0)
    for model, x in ((Convert3d(), torch.randn(1, 2, 3, 4, 5)), (Loop(), image()), (Window(), image())):
        example = x.to(memory_format=LAST) if x.dim() == 4 else x
        loaded = load(edgecore.compile(model.eval(), (example,), backends=backends))
        for y in (example, x, permuted(x)):
            compare(results(loaded.forward(y)), model, y, 1e-5)


INTEGERS = [
    pytest.param(name, recipe, marks=() if name == "xnnpack" else pytest.mark.slow)
    for name in BACKENDS
    for recipe in ("int8", "int8-dynamic", "fp16")
    if recipe == "int8" or (name, recipe) in (("xnnpack", "int8-dynamic"), ("openvino", "fp16"))
]


@pytest.mark.parametrize(("backend", "recipe"), INTEGERS)
@pytest.mark.parametrize("channels", [1, 3])
def test_calibration_data_may_have_another_layout_than_the_example(backend, recipe, channels):
    if backend in SLOW and channels != 1:
        pytest.skip("takes long")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(channels, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(200, 4)).eval()
    x, samples = image(channels), [(image(channels),) for _ in range(3)]
    turned = [(from_numpy(sample),) for (sample,) in samples]
    compile_ = partial(edgecore.compile, model, backends=[backend], quantize=recipe)
    if recipe == "int8":
        others = [compile_((x,), calibration=turned), compile_((from_numpy(x),), calibration=turned)]
        check(model, x, (from_numpy(x),), [backend], 0.02, others, quantize=recipe, calibration=samples)
    else:
        check(model, x, (from_numpy(x),), [backend], 0.02, quantize=recipe)


@pytest.mark.parametrize("recipe", ["int8", "int16x8"])
@pytest.mark.parametrize(
    "name",
    [
        "conv, pools and linear",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("residual", "depthwise", "inner")),
    ],
)
def test_integer_kernels_compute_models_in_channels_last(name, recipe):
    torch.manual_seed(0)
    model, x = MODELS[name]()
    options = {"runtime": "edgecore", "quantize": recipe, "calibration": [x]}
    plain, outputs = check(model.eval(), x, (from_numpy(x), permuted(x)), (), 0, **options)
    other, again = check(model.to(memory_format=LAST), x, (from_numpy(x),), (), 0, **options)
    assert delegated(other) == delegated(plain)
    for result, value in zip(again, outputs, strict=True):  # PyTorch adds in another order when it observes ranges
        assert float((result - value).abs().max()) <= 0.02 * float(value.abs().max())
    integers = [row.operator for row in other.report().rows if row.operator.startswith("edgecore.int")]
    assert len(integers) >= sum(isinstance(layer, (nn.Conv2d, nn.Linear)) for layer in model.modules())


NETWORKS = ("resnet18", "mobilenet_v3_small")


def check_network(model, size, backend):
    torch.manual_seed(0)
    x = torch.randn(1, 3, size, size)
    options = {"quantize": "int8", "calibration": [(x,)]} if backend == "ethosu" else {}
    model = model.eval().to(memory_format=LAST)
    for parameter in model.parameters():  # random networks as they are initialised give tiny numbers
        nn.init.normal_(parameter, std=0.1) if parameter.dim() == 1 else None
    tolerance = 0.1 if options else ROUNDING.get(backend, 1e-4)
    plain, outputs = check(model, x, (x.to(memory_format=LAST),), [backend], tolerance, **options)
    if not options:
        compare(outputs, model, x, tolerance)
    return delegated(plain)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torchvision") is None, reason="torchvision is not installed")
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("backend", [name for name in BACKENDS if name in ("xnnpack", "openvino", "vulkan")])
def test_networks_in_channels_last_are_delegated_as_contiguous_ones(backend, name):
    check_network(getattr(torchvision_models(), name)(), 64, backend)


TIMM = ("efficientnet_lite0", "convnextv2_atto", "vit_tiny_patch16_224")


@pytest.mark.full
@pytest.mark.parametrize("name", [*NETWORKS, "efficientnet_b0", *TIMM])
@pytest.mark.parametrize("backend", BACKENDS)
def test_more_networks_in_channels_last_are_delegated_as_contiguous_ones(backend, name):
    if name in TIMM:
        torchvision_models()  # timm imports it
        model, size = pytest.importorskip("timm").create_model(name), 224 if "224" in name else 64
    else:
        model, size = getattr(torchvision_models(), name)(), 64
    print(name, backend, check_network(model, size, backend))


@pytest.mark.parametrize("example", [image(), from_numpy(image())], ids=["contiguous", "channels last"])
@pytest.mark.parametrize("backends", [(), *([name] for name in BACKENDS if name in ("xnnpack", "openvino"))], ids=str)
def test_an_input_in_any_layout_is_taken_and_an_output_of_another_layout_refused(backends, example):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).eval()
    forward = load(edgecore.compile(model, (example,), backends=backends)).forward
    x = image()
    with torch.no_grad():
        expected = model(x)
    strided = torch.randn(1, 6, 24, 12)[:, ::2, ::2]
    strided.copy_(x)
    for y in (x, from_numpy(x), permuted(x), strided):
        assert torch.allclose(forward(y), expected, atol=1e-5)
        assert numpy.allclose(forward(y.numpy()), expected, atol=1e-5)
    layout = from_numpy if model(example).is_contiguous(memory_format=LAST) else torch.clone
    other = torch.clone if layout is from_numpy else from_numpy
    out = layout(torch.zeros(1, 4, 10, 10))
    forward(x, out=out)
    assert torch.allclose(out, expected, atol=1e-5)
    with pytest.raises(ExecutionError, match="must be contiguous with dim order"):
        forward(x, out=other(torch.zeros(1, 4, 10, 10)))
