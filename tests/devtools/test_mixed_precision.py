"""Suggestions of layers to leave in floating point: spoilt layers are found, and nothing else."""

from __future__ import annotations

import copy
from importlib.util import find_spec

import pytest
import torch
from torch import nn
from zoo import torchvision_models

import edgecore
from edgecore.devtools import suggest
from edgecore.errors import EdgecoreError


def spoil(layer: nn.Module) -> None:
    """Give a layer weights that 8 bits cannot hold: one per output, for an input that is almost zero, is very large."""
    with torch.no_grad():
        layer.weight.view(layer.weight.shape[0], -1)[:, 0] = 400 * layer.weight.abs().max()


@pytest.fixture(scope="module")
def digits():
    """A network that classifies digits, its test data, and the data for calibration."""
    datasets = pytest.importorskip("sklearn.datasets")
    data = datasets.load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
    images[..., 0, 0] = 0  # always dark in this data; the spoilt weights of the first layer do not count there
    labels = torch.tensor(data.target)
    torch.manual_seed(0)
    layers = [nn.Flatten(), nn.Linear(64, 64), nn.ReLU()]
    for _ in range(2):
        layers += [nn.Linear(64, 64), nn.ReLU()]
    net = nn.Sequential(*layers, nn.Linear(64, 10))
    optimizer = torch.optim.Adam(net.parameters(), 3e-3)
    for _ in range(200):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(images[:1400]), labels[:1400]).backward()
        optimizer.step()
    return net.eval(), images[1400:], labels[1400:], [(images[i : i + 1],) for i in range(0, 320, 10)]


@pytest.mark.full
def test_a_spoilt_layer_is_found_and_gives_the_accuracy_back(digits):
    net, images, labels, samples = digits
    spoil(net[1])

    def accuracy(run):
        found = [run(image.unsqueeze(0)).argmax().item() for image in images[:100]]
        return sum(got == want for got, want in zip(found, labels[:100].tolist(), strict=True)) / 100

    steps = []
    found = suggest(net, samples[0], calibration=samples, metric=accuracy, max_drop=0.02, on_step=steps.append, runs=3)
    assert found.quantized_score < found.float_score - 0.2, str(found)
    assert found.recipe.skip == ("1",), str(found)
    assert found.reached and found.recovered >= 0.9
    assert steps == found.steps and next(iter(found.sensitivity)) == "1"
    assert found.ms is not None and min(found.ms) > 0
    assert "quantize=edgecore.Recipe('int8', skip=('1',))" in str(found)
    program = edgecore.compile(net, samples[0], backends=["xnnpack"], quantize=found.recipe, calibration=samples)
    loaded = edgecore.load(program.buffer)
    assert accuracy(lambda x: torch.from_dlpack(loaded.forward(x))) == found.score


def test_a_model_that_is_good_enough_stays_as_it_is():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    samples = [(torch.randn(2, 16),) for _ in range(8)]
    found = suggest(net, samples[0], calibration=samples, max_drop=20.0, runs=3)
    assert found.recipe.skip == () and found.steps == [] and found.reached
    assert found.ms is not None and min(found.ms) > 0
    assert found.float_score == 40 and found.score == found.quantized_score > 20


class Block(nn.Module):
    """Two layers and a sum, which belongs to the block itself."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x):
        return x + self.b(torch.relu(self.a(x)))


def test_a_block_counts_with_all_layers_inside_and_the_recipe_keeps_what_the_user_gave():
    torch.manual_seed(0)
    net = nn.Sequential(Block(), Block(), Block(), nn.Linear(16, 4)).eval()
    samples = [(torch.randn(2, 16),) for _ in range(4)]
    recipe = edgecore.Recipe("int8", weights="tensor", skip=["0.a"])
    found = suggest(net, samples[0], calibration=iter(samples), quantize=recipe, max_share=0.5, max_drop=0.0, runs=0)
    assert found.layers == 9 and "0.a" not in found.sensitivity  # three sums, five layers of blocks, and the last layer
    names = [name for name in found.sensitivity if any(f"{name}.".startswith(f"{one}.") for one in found.recipe.skip)]
    assert found.in_float == len(names) <= 4
    assert any(name in found.recipe.skip for name in ("0", "1", "2")), str(found)
    assert found.recipe.skip[0] == "0.a" and found.recipe.weights == "tensor"
    assert f"{found.in_float} of 9 layers" in str(found)
    printed = str(found).splitlines()[-1].removeprefix("quantize=")
    assert eval(printed, {"edgecore": edgecore}) == found.recipe


def test_the_state_of_the_model_stays_as_it_was():
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(16, 16)
            self.register_buffer("total", torch.zeros(16))

        def forward(self, x):
            self.total.add_(x.sum(0))
            return self.linear(x) + self.total

    torch.manual_seed(0)
    net = Counter().eval()
    samples = [(torch.randn(2, 16),) for _ in range(4)]
    found = suggest(net, samples[0], calibration=samples, max_drop=40.0, runs=0)
    assert not net.total.any()
    assert found.quantized_score > 20


class Largest(nn.Module):
    def forward(self, x):
        return x.argmax(-1)


def test_wrong_arguments_are_refused_in_a_sentence():
    net = nn.Sequential(nn.ReLU()).eval()
    samples = [(torch.randn(2, 16),)]
    with pytest.raises(ValueError, match="a recipe or its name"):
        suggest(net, samples[0], calibration=samples, quantize={"xnnpack": "int8"})
    with pytest.raises(ValueError, match="pass samples="):
        suggest(net, samples[0], calibration=lambda prepared: None)
    with pytest.raises(ValueError, match="output in floating point"):
        suggest(Largest(), samples[0], calibration=samples)
    with pytest.raises(ValueError, match="max_share in"):
        suggest(net, samples[0], calibration=samples, max_share=0)
    with pytest.raises(ValueError, match="needs samples"):
        suggest(net, samples[0], calibration=[])
    with pytest.raises(EdgecoreError, match="quantizes no layer"):
        suggest(net, samples[0], calibration=samples)


def accuracy_of(inputs: list[tuple[torch.Tensor, ...]], labels: torch.Tensor):
    """Return a metric: the share of inputs whose largest output is the label's."""

    def accuracy(run):
        found = torch.cat([run(*one) for one in inputs]).argmax(1)
        return (found == labels).double().mean().item()

    return accuracy


def test_two_spoilt_layers_that_help_only_together_are_found(digits):
    net, images, labels, samples = digits
    net = copy.deepcopy(net)
    spoil(net[1])
    spoil(net[3])
    with torch.no_grad():
        net[1].weight[0], net[1].bias[0] = 0, -1  # so that the input of net[3] with the large weights is zero
    inputs = [(image.unsqueeze(0),) for image in images[:100]]
    accuracy = accuracy_of(inputs, labels[:100])
    found = suggest(net, samples[0], calibration=samples, metric=accuracy, max_drop=0.02, max_share=0.5, runs=0)
    assert set(found.recipe.skip) == {"1", "3"} and found.in_float == 2, str(found)
    assert found.reached and found.recovered >= 0.9, str(found)


@pytest.mark.full
def test_two_spoilt_layers_of_a_mobilenet_are_found():
    if find_spec("torchvision") is None:
        pytest.skip("needs torchvision")
    torch.manual_seed(0)
    net = torchvision_models().mobilenet_v2(weights=None)

    spots = torch.rand(4, 3, 6, 6)  # an image of each class, without noise

    def images(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return images of large spots, a quarter of each class, and their classes."""
        labels = torch.arange(count) % 4
        noisy = spots[labels] + 0.1 * torch.rand(count, 3, 6, 6)
        return nn.functional.interpolate(noisy, size=(64, 64), mode="bilinear"), labels

    spoilt = {
        "features.4.conv.0.0": ("features.2.conv.3", "features.3.conv.3"),
        "features.11.conv.2": ("features.11.conv.1.1",),
    }
    norms = [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = None  # statistics of all batches
    for name, before in spoilt.items():
        spoil(net.get_submodule(name))
        for norm in before:  # so that the input with the large weights is zero
            with torch.no_grad():
                net.get_submodule(norm).weight[0] = 0
    net.train()
    with torch.no_grad():
        for _ in range(4):
            net(images(16)[0])
        net.eval()
        training, classes = images(64)
        features = net.features(training).mean((2, 3))
        net.classifier = nn.Linear(1280, 4)  # by ridge regression
        centred = features - features.mean(0)
        wanted = nn.functional.one_hot(classes, 4).float() - 0.25
        dual = torch.linalg.solve(centred @ centred.T + 1e-2 * centred.square().sum(1).mean() * torch.eye(64), wanted)
        net.classifier.weight.copy_(dual.T @ centred)
        net.classifier.bias.copy_(0.25 - net.classifier.weight @ features.mean(0))
    pictures, labels = images(24)
    samples = [(one.unsqueeze(0),) for one in pictures]
    accuracy = accuracy_of(samples, labels)
    found = suggest(net, samples[0], calibration=samples[:8], metric=accuracy, max_drop=0.1, max_share=0.1, runs=0)
    assert set(spoilt) <= set(found.recipe.skip), str(found)
    assert found.float_score > 0.9 and found.quantized_score < 0.5, str(found)
    assert found.recovered >= 0.9 and found.in_float <= 0.1 * found.layers, str(found)
