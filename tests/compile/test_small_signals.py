"""Small and large signals inside a network: the scales of integers follow them, and sums keep their biases."""

from __future__ import annotations

import math
from importlib.util import find_spec

import pytest
import torch
from zoo import torchvision_models

import edgecore
from edgecore.errors import QuantizationWarning

nn = torch.nn
RECIPES = [
    ("", "int8"), ("", "int16x8"), ("xnnpack", "int8"), ("xnnpack", "int8-dynamic"), ("xnnpack", "int8-weights"),
    ("xnnpack", "int4-weights"), ("openvino", "int8"), ("openvino", "int8-weights"), ("openvino", "int4-weights"),
    ("vulkan", "int8"), ("vulkan", "int8-dynamic"), ("vulkan", "int8-weights"), ("vulkan", "int4-weights"),
    ("qnn", "int8"), ("qnn", "int16x8"), ("ethosu", "int8"), ("ethosu", "int16x8"), ("vgf", "int8"), ("vgf", "int16x8"),
    ("coreml", "int8"), ("coreml", "int8-weights"), ("coreml", "int4-weights"),
]  # fmt: skip
STATIC = ("int8", "int16x8")
CANNOT_RUN = ("coreml",)


def samples() -> list[tuple[torch.Tensor]]:
    torch.manual_seed(1)
    return [(torch.randn(2, 3, 8, 8),) for _ in range(4)]


def network(factor: float = 1.0) -> torch.nn.Sequential:
    """Layers before a ReLU are multiplied by `factor`, and the layers after it divided by it: the function is the same."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3), nn.Flatten(),
        nn.Linear(144, 32), nn.ReLU(), nn.Linear(32, 16),
    ).eval()  # fmt: skip
    with torch.no_grad():
        for before, after in ((model[0], model[2]), (model[4], model[6])):
            before.weight.mul_(factor)
            before.bias.mul_(factor)
            after.weight.div_(factor)
    return model


def sqnr(want: torch.Tensor, got: torch.Tensor) -> float:
    noise = float((want - got).double().norm())
    return 20 * math.log10(float(want.double().norm()) / noise) if noise else math.inf


def compiled(backend: str, recipe: str, model: torch.nn.Module) -> edgecore.CompiledProgram:
    if backend:
        pytest.importorskip(f"edgecore_{backend}")
    return edgecore.compile(
        model, samples()[0], backends=[backend] if backend else [], quantize=recipe,
        runtime="executorch-1.5" if backend else "edgecore", calibration=samples() if recipe in STATIC else None,
    )  # fmt: skip


def qualities(backend: str, recipe: str, model: torch.nn.Module) -> list[float]:
    """The SQNR of the quantized program in PyTorch and, where it can run here, of the file."""
    program = compiled(backend, recipe, model)
    (x,) = samples()[0]
    with torch.no_grad():
        want = model(x)
        results = [] if backend in CANNOT_RUN else [torch.as_tensor(edgecore.load(program.buffer).forward(x))]
        results.append(program.quantized["forward"].program.module()(x))
    return [sqnr(want, result) for result in results]


@pytest.mark.parametrize("backend, recipe", RECIPES)
def test_the_magnitude_of_inner_values_does_not_matter(backend: str, recipe: str) -> None:
    unscaled = qualities(backend, recipe, network())
    for factor in (1e-4, 1e4):
        for want, got in zip(unscaled, qualities(backend, recipe, network(factor)), strict=True):
            assert got > want - 1


@pytest.mark.parametrize("backend, recipe", [("", "int8"), ("xnnpack", "int8"), ("vgf", "int8"), ("qnn", "int16x8")])
def test_training_rounds_small_values_to_steps_of_their_magnitude(backend: str, recipe: str) -> None:
    if backend:
        pytest.importorskip(f"edgecore_{backend}")
    (x,), ratios = samples()[0], []
    for factor in (1.0, 1e-4, 1e4):
        model = network(factor)
        prepared = edgecore.prepare_qat(model, (x,), backends=[backend] if backend else [], quantize=recipe)
        with torch.no_grad():
            for _ in range(2):
                trained = prepared(x)
            ratios.append(sqnr(model(x), trained))
    assert min(ratios[1:]) > ratios[0] - 1 and ratios[0] > 25


def dying(case: str) -> torch.nn.Sequential:
    model = network()
    with torch.no_grad():
        if case == "small channel with a bias":
            model[0].weight[0] *= 1e-12
            model[0].bias[0] = 1
        elif case == "small layer with a bias":
            model[2].weight.mul_(1e-12)
        elif case == "channel of zeros":
            model[0].weight[0] = 0
        else:
            model[0].bias.fill_(-100)  # the ReLU gives zeros only
    return model


CASES = ("small channel with a bias", "small layer with a bias", "channel of zeros", "zeros after a ReLU")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    "backend, recipe", [("", "int8"), ("xnnpack", "int8"), ("ethosu", "int8"), ("ethosu", "int16x8"), ("qnn", "int8")]
)
def test_a_bias_survives_beside_very_small_products(backend: str, recipe: str, case: str) -> None:
    if backend == "qnn" and case != CASES[0]:
        pytest.skip("one case is enough for a slow compiler")
    model = dying(case)
    assert min(qualities(backend, recipe, model)) > 25


class Difference(torch.nn.Module):
    """A difference of values that are almost equal, of which their steps leave nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        return y + ((y + x * 1e-4) - y)


def test_a_layer_that_is_quantized_to_nothing_is_a_warning_that_names_it() -> None:
    torch.manual_seed(0)
    x = (torch.randn(4, 16),)
    with pytest.warns(
        QuantizationWarning,
        match=r"nothing of 1 layer: aten.sub.Tensor \(sub, .*test_small_signals.py:\d+\) with 0.0 dB",
    ) as told:
        edgecore.compile(Difference().eval(), x, backends=[], runtime="edgecore", quantize="int8", calibration=[x] * 2)
    assert told[0].filename == __file__


@pytest.mark.full
def test_the_magnitude_of_inner_values_of_resnet18_does_not_matter() -> None:
    if find_spec("torchvision") is None:
        pytest.skip("needs torchvision")
    models = torchvision_models()
    x = (torch.randn(1, 3, 64, 64),)
    ratios = []
    for factor in (1.0, 1e-4, 1e4):
        torch.manual_seed(0)
        model = models.resnet18().eval()
        with torch.no_grad():
            for block in (*model.layer1, *model.layer2, *model.layer3, *model.layer4):
                block.bn1.weight.mul_(factor)
                block.bn1.bias.mul_(factor)
                block.conv2.weight.div_(factor)
            program = edgecore.compile(model, x, backends=[], runtime="edgecore", quantize="int8", calibration=[x])
            ratios.append(sqnr(model(*x), program.quantized["forward"].program.module()(*x)))
    assert min(ratios[1:]) > ratios[0] - 1
