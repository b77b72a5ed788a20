"""Whole networks: one delegate each, and the accuracy that integers keep."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch
from torch import nn
from torch.nn import functional
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import edgecore
from edgecore_ethosu import EthosUCompileSpec, EthosUQuantizer
from edgecore_ethosu.quantizer import get_symmetric_quantization_config

TARGETS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
RECIPES = ("int8", "int16x8")


class Moves(nn.Module):
    """Operators that move data, resize, or are layers of other than two dims."""

    def __init__(self) -> None:
        super().__init__()
        self.grow = nn.ConvTranspose2d(8, 8, 4, 4)
        self.enlarge = nn.ConvTranspose2d(8, 4, 3, 2, 1, output_padding=1)
        self.sequence = nn.Conv1d(8, 8, 3, padding=1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        padded = functional.pad(x, (1, 2, 0, 1), value=0.3).flip((1, 2, 3)).roll((1, 2), (2, 3))
        reflected = functional.pad(x, (2, 2, 1, 1), mode="reflect")[:, 1::3, ::2]
        shuffled = functional.pixel_unshuffle(functional.pixel_shuffle(x, 2), 2)
        resized = [functional.interpolate(x, scale_factor=factor) for factor in (2, 3, (1, 2))]
        blurred = [functional.interpolate(x, scale_factor=factor, mode="bilinear") for factor in (2, 3, 4)]
        stacked = torch.stack([part.repeat(1, 2, 1) for part in torch.unbind(x, -1)], 1)
        return (
            padded,
            reflected,
            shuffled,
            *resized,
            *blurred,
            stacked,
            self.grow(x),
            self.enlarge(x),
            self.sequence(x[:, :, 0]),
        )


def compiled(model, inputs, target, recipe, calibration):
    """Compile for a target; the inputs and results are real numbers, and one delegate computes all else."""
    backend = edgecore.Backend("ethosu", target=target)
    program = edgecore.compile(model, inputs, backends=[backend], quantize=recipe, calibration=calibration)
    report = str(program.report())
    assert "not delegated: aten" not in report and report.count("NPU operations") == 1, report
    return program


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("target", TARGETS)
def test_digits_lose_at_most_half_a_point(target, recipe):
    digits = pytest.importorskip("trained_digits")  # beside the tests of the core
    model, images, _, samples = digits.trained()
    program = compiled(model, (images,), target, recipe, [(samples,)])
    assert digits.lost_accuracy(edgecore.load(program.buffer).forward(images)) <= 0.005


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("target", TARGETS)
def test_a_keyword_spotting_network_is_one_delegate(target, recipe):
    check_small("ds_cnn", target, recipe)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("target", TARGETS)
def test_a_transformer_encoder_is_one_delegate_but_for_its_products_of_int16(target, recipe):
    if recipe == "int16x8" and target != "ethos-u85-256":
        pytest.skip("U55 and U65 have no product of int16 matrices: the attention is not delegated")
    check_small("encoder", target, recipe)


def check_small(name, target, recipe):
    """Compile a network of the zoo, calibrated with 16 inputs, and compare its result with eager's."""
    zoo = pytest.importorskip("zoo")  # beside the tests of the core
    model, (x,) = zoo.make(name)
    samples = [(torch.randn_like(x),) for _ in range(15)]
    program = compiled(model, (x,), target, recipe, [(x,), *samples])
    result = torch.as_tensor(edgecore.load(program.buffer).forward(x))
    with torch.no_grad():
        expected = model(x)
    bound = {"int8": 0.1, "int16x8": 0.01}[recipe]
    assert (result - expected).abs().max() <= bound * expected.abs().max()


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("target", TARGETS)
def test_data_moves_inside_of_the_npu(target, recipe):
    torch.manual_seed(0)
    model, x = Moves().eval(), torch.randn(1, 8, 6, 8)
    program = compiled(model, (x,), target, recipe, [(x,)])
    bound = {"int8": 0.05, "int16x8": 0.01}[recipe]
    with torch.no_grad():
        for result, expected in zip(edgecore.load(program.buffer).forward(x), model(x), strict=True):
            assert (torch.as_tensor(result) - expected).abs().max() <= bound * expected.abs().max()


@pytest.mark.full
@pytest.mark.parametrize("target", TARGETS)
def test_mobilenet_differs_from_pytorch_by_at_most_two_steps_on_average(target):
    zoo = pytest.importorskip("zoo")  # beside the tests of the core
    model, inputs = zoo.make("mobilenet_v2")
    samples = [inputs, zoo.other_inputs(inputs)]
    exported = torch.export.export(model, inputs)
    quantizer = EthosUQuantizer(EthosUCompileSpec(target)).set_global(get_symmetric_quantization_config())
    prepared = prepare_pt2e(exported.module(check_guards=False), quantizer)
    for sample in samples:
        prepared(*sample)
    program = torch.export.export(convert_pt2e(prepared), inputs)
    backend = edgecore.Backend("ethosu", target=target)
    lowered = edgecore.compile(program, backends=[backend])
    report = str(lowered.report())
    assert "not delegated: aten" not in report and report.count("NPU operations") == 1, report
    step = program.graph.output_node().args[0][0].args[1]
    result = torch.as_tensor(edgecore.load(lowered.buffer).forward(*inputs))
    steps = (result - program.module(check_guards=False)(*inputs)).abs() / step
    assert steps.mean() <= 2, (steps.mean(), steps.max())


@pytest.mark.skipif(find_spec("torchvision") is None, reason="needs torchvision")
@pytest.mark.parametrize(
    ("name", "target"),
    [
        pytest.param("efficientnet_b0", "ethos-u55-128", marks=pytest.mark.slow),  # minutes in Vela
        ("mobilenet_v3_small", "ethos-u85-256"),
    ],
)
def test_a_network_for_images_is_one_delegate(name, target):
    zoo = pytest.importorskip("zoo")  # beside the tests of the core
    model, inputs = zoo.make(name)
    compiled(model, inputs, target, "int8", [inputs])
