"""The recipes of XNNPACK with parameters at their ends: what layers become, and what accuracy is left."""

import pytest
import torch
from torch import nn

import edgecore
from edgecore import Recipe
from edgecore.errors import CompileError


class Net(nn.Module):
    """Convolutions, an activation with fixed quantization parameters, and linear layers."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8)
        self.wide, self.narrow = nn.Linear(8 * 9, 256), nn.Linear(256, 33)

    def forward(self, x):
        return self.narrow(torch.sigmoid(self.wide(torch.relu(self.norm(self.conv(x))).flatten(1))))


X = torch.randn(5, 3, 8, 8, generator=torch.Generator().manual_seed(0))
ROW, STATIC = "inputs int8 per row at run time", "inputs int8"


def net():
    torch.manual_seed(0)
    return Net().eval()


@pytest.mark.parametrize(
    ("recipe", "narrow", "quality"),
    [
        (Recipe("int8", weights="tensor"), f"{STATIC}, weights int8 per tensor, result int8", 30),
        (Recipe("int8", weights="channel", symmetric=True), f"{STATIC}, weights int8 per channel, result int8", 25),
        (Recipe("int8", symmetric=False, observer="minmax"), f"{STATIC}, weights int8 per channel, result int8", 30),
        (Recipe("int8", observer="moving-average"), f"{STATIC}, weights int8 per channel, result int8", 30),
        (Recipe("int8-dynamic", weights="tensor"), "inputs int8 at run time, weights int8 per tensor", 35),
        (Recipe("int8-weights"), "weights int8 per channel", 40),
        (Recipe("int8-weights", activations="dynamic"), f"{ROW}, weights int8 per channel", 40),
        (Recipe("int4-weights", group=32), f"{ROW}, weights int4 in groups of 32", 20),
        (Recipe("int4-weights", group=8), f"{ROW}, weights int4 in groups of 8", 22),
        (Recipe("int4-weights", group=16), f"{ROW}, weights int4 in groups of 16", 21),
        (Recipe("int4-weights", group=64), f"{ROW}, weights int4 in groups of 64", 20),
        (Recipe("int4-weights", group=128), f"{ROW}, weights int4 in groups of 128", 20),
        (Recipe("int4-weights", group=256), f"{ROW}, weights int4 in groups of 256", 18),
        (Recipe("int4-weights", group=288), f"{ROW}, weights int8 per channel", 40),  # 256 is no multiple of it
        (Recipe("int4-weights", weights="channel"), f"{ROW}, weights int4 per channel", 18),
        (Recipe("int4-weights", weights="channel", activations="none"), "weights int4 per channel", 18),
    ],
    ids=repr,
)
def test_a_layer_becomes_what_the_parameters_say_in_one_delegate(recipe, narrow, quality):
    calibration = [X] if recipe.name == "int8" else None
    program = edgecore.compile(net(), (X,), backends="xnnpack", quantize=recipe, calibration=calibration)
    assert program.report().delegates == {"XnnpackBackend": 1} and program.report().left_outside == []
    (row,) = (row for row in program.report(quantization=True).quantization if row.module == "narrow")
    assert row.scheme == narrow and row.sqnr > quality
    assert program.compare(net()).ok


def test_symmetric_activations_have_the_zero_point_0():
    library = torch.ops.quantized_decomposed
    program = edgecore.compile(
        net(), (X,), backends="xnnpack", quantize=Recipe("int8", symmetric=True), calibration=[X]
    )
    zero_points = {
        node.args[2]
        for node in program.quantized["forward"].program.graph.nodes
        if node.target is library.quantize_per_tensor.default
    }
    assert zero_points == {0, -128}  # -128 is the fixed zero point of XNNPACK's sigmoid


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (
            Recipe("int4-weights", group=44),
            "group=44: Input should be a multiple of 8 .it has: weights=group, channel; group",
        ),
        (Recipe("int4-weights", group=4), "group=4: Input should be a multiple of 8"),
        (
            Recipe("int4-weights", activations="none"),
            "no kernel for activations='none' with groups; use weights='channel'",
        ),
        (Recipe("int4-weights", weights="tensor"), "weights='tensor': Input should be 'group' or 'channel'"),
        (
            Recipe("int8-dynamic", symmetric=True),
            "no parameter 'symmetric' .it has: weights=channel, tensor; activations",
        ),
        (Recipe("int8", activations="dynamic"), "activations='dynamic': Input should be 'static'"),
        (Recipe("int8-dynamic", kv_cache=8), "no parameter 'kv_cache' .it has: weights=channel, tensor; activations"),
    ],
    ids=repr,
)
def test_parameters_without_a_kernel_are_an_error_that_lists_the_others(recipe, message):
    with pytest.raises(CompileError, match=message):
        edgecore.compile(net(), (X,), backends="xnnpack", quantize=recipe, calibration=[X])


@pytest.mark.parametrize("recipe", ["int8", "int8-dynamic", "int8-weights", "int4-weights"])
def test_a_digits_network_loses_at_most_one_point(recipe):
    digits = pytest.importorskip("trained_digits")  # beside the tests of the core
    model, images, _, samples = digits.trained()
    calibration = samples.split(10) if recipe == "int8" else None
    batch = torch.export.Dim("batch", min=1, max=400)
    program = edgecore.compile(
        model, (images,), dynamic_shapes=({0: batch},), backends="xnnpack", quantize=recipe, calibration=calibration
    )
    assert digits.lost_accuracy(edgecore.load(program.buffer).forward(images)) <= 0.0095
