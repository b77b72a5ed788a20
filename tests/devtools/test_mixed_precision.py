"""Suggestions of layers to leave in floating point: spoilt layers are found, and nothing else."""

from __future__ import annotations

import pytest
import torch
from torch import nn

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
    assert "quantize=edgecore.Recipe('int8', skip=['1'])" in str(found)
    program = edgecore.compile(net, samples[0], backends=["xnnpack"], quantize=found.recipe, calibration=samples)
    loaded = edgecore.load(program.buffer)
    assert accuracy(lambda x: torch.from_dlpack(loaded.forward(x))) == found.score


def test_a_model_that_is_good_enough_stays_as_it_is():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    samples = [(torch.randn(2, 16),) for _ in range(8)]
    found = suggest(net, samples[0], calibration=samples, max_drop=20.0, runs=0)
    assert found.recipe.skip == () and found.steps == [] and found.reached and found.ms is None
    assert found.float_score == 40 and found.recovered == 0


def test_wrong_arguments_are_refused_in_a_sentence():
    net = nn.Sequential(nn.ReLU()).eval()
    samples = [(torch.randn(2, 16),)]
    with pytest.raises(ValueError, match="max_share in"):
        suggest(net, samples[0], calibration=samples, max_share=0)
    with pytest.raises(ValueError, match="needs samples"):
        suggest(net, samples[0], calibration=[])
    with pytest.raises(EdgecoreError, match="quantizes no layer"):
        suggest(net, samples[0], calibration=samples)


@pytest.mark.full
def test_two_spoilt_layers_of_a_mobilenet_are_found():
    models = pytest.importorskip("torchvision.models")
    torch.manual_seed(0)
    net = models.mobilenet_v2(weights=None)
    samples = [(torch.rand(1, 3, 96, 96),) for _ in range(8)]
    net.train()
    with torch.no_grad():
        for _ in range(3):
            net(torch.rand(8, 3, 96, 96))  # statistics of the batch norms
    net.eval()
    spoilt = ("features.4.conv.0.0", "features.11.conv.2")
    for name in spoilt:
        spoil(net.get_submodule(name))
    with torch.no_grad():
        net(samples[0][0])
    found = suggest(net, samples[0], calibration=samples, max_share=0.1, runs=0)
    assert set(spoilt) <= set(found.recipe.skip), str(found)
    assert len(found.recipe.skip) <= 0.1 * found.layers
