"""Whole networks on the emulator: one delegate each, and as accurate as their quantization allows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from layer_steps import layer_steps
from qnn_models import Inputs, Small, compile_model, decibels, image, onnx_graphs, onnx_result, run
from qnn_runs import providers, run_without_python
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


class Limited(nn.Module):
    """Limits the results of operators that have a scale of QNN's own in 16 bits."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            torch.sigmoid(x).clamp(0.0, 0.5), torch.tanh(x).clamp(0.0, 0.5), functional.hardsigmoid(x).clamp(0.0, 0.5),
            torch.tanh(x).relu(), torch.sigmoid(x).clamp(0.2, 0.9).clamp(0.3, 0.6),
        )  # fmt: skip


def check_one_delegate(program: edgecore.CompiledProgram) -> None:
    """Check that a single delegate has all operators."""
    report = str(program.report())
    assert "1 x QnnBackend" in report and "not delegated" not in report, report


def run_on_qnn(program: edgecore.CompiledProgram, inputs: Inputs, folder: Path) -> torch.Tensor:
    """Run a program in Python, then by edgecore-run; both results are equal, and each profile has one node, of QNN."""
    check_one_delegate(program)
    file = folder / "model.pte"
    program.save(file)
    loaded = edgecore.load(file, options={"qnn": {"profile": str(folder / "python")}})
    found = torch.as_tensor(loaded.forward(*inputs)).clone()
    del loaded
    without_python = run_without_python(file, inputs, folder, profile=str(folder / "cpp"))
    assert np.array_equal(without_python, found.numpy())
    for start in ("python", "cpp"):
        assert providers(folder, start) == ["QNNExecutionProvider"]
    return found


PRECISIONS = [("int8", 20.0), ("int16x8", 35.0), (None, 55.0)]


@pytest.mark.parametrize("soc", ["SM8650", "SM8750"])
@pytest.mark.parametrize(("recipe", "minimum"), PRECISIONS)
def test_a_small_network_runs_on_qnn_in_each_precision(recipe: str | None, minimum: float, soc: str, tmp_path: Path):
    model, example = Small().eval(), image()
    found = run_on_qnn(compile_model(model, example, recipe, soc_model=soc), example, tmp_path)
    assert decibels(model(*example).detach(), found) >= minimum


def test_a_clamp_limits_results_of_16_bits_whose_scale_qnn_chooses():
    x = torch.linspace(-2.5, 2.5, 8)[None]
    model = Limited()
    loaded = edgecore.load(bytes(compile_model(model, (x,), "int16x8").buffer))
    torch.testing.assert_close(tuple(loaded.forward(x)), model(x), rtol=0, atol=2e-3)


@pytest.mark.parametrize("soc", ["SM8650", "SM8750"])
def test_a_vision_transformer_is_one_delegate_with_fp16(soc: str, tmp_path: Path):
    model, example = Encoder().eval(), (torch.randn(1, 3, 32, 32),)
    found = run_on_qnn(compile_model(model, example, soc_model=soc), example, tmp_path)
    expected = model(*example).detach()
    assert (found - expected).abs().max() <= FP16 * expected.abs().max()


@pytest.mark.parametrize("recipe", ["int8", "int16x8", None])
def test_digits_lose_at_most_half_a_point(recipe: str | None):
    digits = pytest.importorskip("trained_digits")  # beside the tests of the core
    model, images, _, samples = digits.trained()
    program = edgecore.compile(
        model, (images,), backends=["qnn"], quantize=recipe, calibration=[(samples,)] if recipe else None
    )
    check_one_delegate(program)
    assert digits.lost_accuracy(run(program, images)) <= 0.005


NETWORKS = [("mobilenet_v2", "int8"), ("resnet18", "int8"), ("mobilenet_v3_small", "int16x8")]
SOCS = ["SM8650", "SM8750"]


@pytest.mark.full
@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize(("name", "recipe"), NETWORKS)
def test_a_quantized_network_is_as_accurate_as_on_the_cpu(
    name: str, recipe: str, soc: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Each layer is close to ONNX Runtime's CPU provider, and the whole network has the same error against float32.

    Weights are random, so single steps of rounding grow over the layers: the CPU provider differs from itself, with and
    without its optimizations, as much as from the NPU. So results of a whole network are not compared in steps.
    """
    model, example = zoo_model(name)
    graphs = onnx_graphs(monkeypatch)
    found = run_on_qnn(compile_model(model, example, recipe, soc_model=soc), example, tmp_path)
    inputs = {f"input_{index}": value.numpy() for index, value in enumerate(example)}
    steps = layer_steps(graphs[0].model, inputs, soc)
    expected, on_cpu = model(*example).detach(), onnx_result(graphs[0], *example)
    assert decibels(expected, found) >= decibels(expected, on_cpu) - 1
    if recipe == "int8":
        assert max(steps.values()) <= 1
    else:
        # 16 bits have 65,536 steps. The emulator computes depthwise convolutions of stride 2 and 5x5 with 0.25%.
        rough = [count for count in steps.values() if count > 8]
        assert len(rough) <= 2 and max(steps.values()) <= 256
        assert decibels(on_cpu, found) >= 50


@pytest.mark.full
@pytest.mark.parametrize("soc", SOCS)
def test_efficientnet_is_as_accurate_as_in_pytorchs_fp16(soc: str, tmp_path: Path):
    """The random weights amplify rounding: an error of `FP16` is out of reach for any fp16."""
    model, example = zoo_model("efficientnet_b0")
    found = run_on_qnn(compile_model(model, example, soc_model=soc), example, tmp_path)
    expected = model(*example).detach()
    half = model.half()(*(value.half() for value in example)).float().detach()
    assert (found - expected).abs().max() <= (half - expected).abs().max()


def zoo_model(name: str) -> tuple[nn.Module, Inputs]:
    """Return a network of torchvision with random weights, and an example."""
    make = pytest.importorskip("zoo").make
    model, example = make(name)
    return model.eval(), example
