"""Whole networks on the emulator: one delegate each, and as accurate as their quantization allows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from qnn_models import compile_model, decibels, onnx_graphs, onnx_result, run
from torch import nn
from torch.nn import functional

import edgecore

FP16 = 2e-3
"""Error of fp16 relative to the largest value, for networks of tens of layers."""


class Block(nn.Module):
    """A block of a vision transformer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.projections, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mixing = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, count, width = x.shape
        parts = self.projections(self.first(x)).reshape(batch, count, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(query, key, value)
        x = x + self.output(mixed.transpose(1, 2).reshape(batch, count, width))
        return x + self.mixing(self.second(x))


class Encoder(nn.Module):
    """A small vision transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 8, 8)
        self.start = nn.Parameter(torch.randn(1, 1, 32) * 0.02)
        self.positions = nn.Parameter(torch.randn(1, 17, 32) * 0.02)
        self.blocks = nn.Sequential(Block(32, 4), Block(32, 4))
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> Any:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.start, x], 1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


def check_one_delegate(program: edgecore.CompiledProgram) -> None:
    """Check that a single delegate has all operators."""
    report = str(program.report())
    assert "1 x QnnBackend" in report and "not delegated" not in report, report


@pytest.mark.parametrize("soc", ["SM8650", "SM8750"])
def test_a_vision_transformer_is_one_delegate_with_fp16(soc: str):
    model, example = Encoder().eval(), (torch.randn(1, 3, 32, 32),)
    program = compile_model(model, example, soc_model=soc)
    check_one_delegate(program)
    expected = model(*example).detach()
    assert (run(program, *example) - expected).abs().max() <= FP16 * expected.abs().max()


@pytest.fixture(scope="module")
def digits() -> tuple[nn.Module, torch.Tensor, torch.Tensor, torch.Tensor]:
    """A network trained on scikit-learn's digits, test images and their labels, and samples."""
    data = pytest.importorskip("sklearn.datasets").load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(data.target)
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(),
        nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(60):
        optimizer.zero_grad()
        functional.cross_entropy(model(images[400:]), labels[400:]).backward()
        optimizer.step()
    return model.eval(), images[:400], labels[:400], images[400:800]


@pytest.mark.parametrize("recipe", ["int8", "int16x8", None])
def test_digits_lose_at_most_half_a_point(digits, recipe: str | None):
    model, images, labels, samples = digits
    program = edgecore.compile(
        model, (images,), backends=["qnn"], quantize=recipe, calibration=[(samples,)] if recipe else None
    )
    check_one_delegate(program)

    def accuracy(scores: torch.Tensor) -> float:
        return float((scores.argmax(1) == labels).float().mean())

    before = accuracy(model(images).detach())
    assert before > 0.95 and accuracy(run(program, images)) >= before - 0.005


NETWORKS = [
    ("mobilenet_v2", "int8"), ("resnet18", "int8"), ("mobilenet_v3_small", "int16x8"), ("efficientnet_b0", None)
]  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("soc", ["SM8650", "SM8750"])
@pytest.mark.parametrize(("name", "recipe"), NETWORKS)
def test_a_network_of_torchvision_is_one_delegate(name: str, recipe: str | None, soc: str, monkeypatch):
    """Weights are random, so single steps of rounding grow over the layers: what counts is the error against float32.

    ONNX Runtime's CPU provider differs from itself with and without its optimizations as much as from the NPU.
    """
    from zoo import make

    model, example = make(name)
    graphs = onnx_graphs(monkeypatch)
    program = compile_model(model, example, recipe, soc_model=soc)
    check_one_delegate(program)
    expected, found = model(*example).detach(), run(program, *example)
    if recipe is None:  # FP16 is out of reach for these weights: PyTorch's own fp16 is the measure
        half = model.half()(*(value.half() for value in example)).float().detach()
        assert (found - expected).abs().max() <= 1.2 * (half - expected).abs().max()
    else:
        assert decibels(expected, found) >= decibels(expected, onnx_result(graphs[0], *example)) - 1
