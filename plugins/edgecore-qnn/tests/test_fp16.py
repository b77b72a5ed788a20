"""Operators in fp16 on the emulator, beside PyTorch's own fp16."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from qnn_models import compile_model, onnx_graphs, op_types, run
from torch import nn

STEP = 2.0**-11
"""Half a step of fp16 at 1: each of a result's operators may round once more than PyTorch's."""

ACTIVATIONS = [
    nn.Sigmoid(), nn.Tanh(), nn.SiLU(), nn.GELU(), nn.GELU("tanh"), nn.Hardswish(), nn.Hardsigmoid(), nn.LeakyReLU(),
    nn.ReLU6(), nn.LogSoftmax(1),
]  # fmt: skip


def errors(model: nn.Module, x: torch.Tensor) -> tuple[float, float]:
    """Return the largest errors of the emulator and of PyTorch's fp16, relative to the largest value."""
    expected, found = model(x).detach(), run(compile_model(model, (x,)), x)
    half = model.half()(x.half()).float().detach()
    largest = float(expected.abs().max())
    return float((found - expected).abs().max()) / largest, float((half - expected).abs().max()) / largest


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
@pytest.mark.parametrize("layer", [nn.Conv2d(16, 16, 3), nn.Linear(16, 16)], ids=["convolution", "linear"])
def test_an_activation_behind_a_layer_is_as_exact_as_pytorch(layer: nn.Module, activation: nn.Module):
    """The provider fuses both, and its fused sigmoid and tanh are several times less exact; so they are not used."""
    layer.reset_parameters()  # type: ignore[operator]
    x = 4 * torch.randn((1, 16, 12, 12) if isinstance(layer, nn.Conv2d) else (4, 16))
    found, half = errors(nn.Sequential(layer.float(), activation).eval(), x)
    assert found <= 1.5 * half + STEP


@pytest.mark.parametrize("mode", ["none", "tanh"])
def test_gelu_is_right_for_all_numbers(mode: str):
    x = torch.cat([torch.linspace(-8, 8, 1001), torch.tensor([-60000.0, -300.0, 300.0, 60000.0])]).half().float()
    model = nn.GELU(mode)
    found, expected = run(compile_model(model, (x,)), x), model(x)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1.5e-3)


@pytest.mark.parametrize("function", [torch.sin, torch.cos])
def test_angles_up_to_2048_keep_their_phase(function: Any):
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)  # type: ignore[no-any-return]

    x = torch.cat([scale * torch.linspace(-1, 1, 257) for scale in (3, 30, 300, 2048)]).half().float()
    found = run(compile_model(Model(), (x,)), x)
    torch.testing.assert_close(found, function(x.double()).float(), rtol=0, atol=6e-3)


def test_a_sigmoid_is_never_negative():
    x = torch.linspace(-40, 40, 1001)
    found = run(compile_model(nn.Sigmoid(), (x,)), x)
    assert found.min() >= 0
    torch.testing.assert_close(found, torch.sigmoid(x), rtol=0, atol=STEP)


def test_quantized_activations_are_single_operators(monkeypatch):
    graphs = onnx_graphs(monkeypatch)
    for activation in (nn.Sigmoid(), nn.Tanh(), nn.GELU()):
        compile_model(activation, (torch.randn(1, 16),), "int8")
    assert [op_types(graph)[2] for graph in graphs] == ["Sigmoid", "Tanh", "Gelu"]


def test_the_tanh_form_of_a_quantized_gelu_is_not_delegated():
    report = str(compile_model(nn.GELU("tanh"), (torch.randn(1, 16),), "int8").report())
    assert "approximate is 'tanh', and the NPU computes the exact function of integers" in report


def block(inputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.SiLU())


def deep() -> tuple[nn.Sequential, torch.Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(block(3), *(block(16) for _ in range(8)), nn.Conv2d(16, 5, 1))
    return model.eval(), torch.randn(1, 3, 16, 16)


@pytest.mark.parametrize("recipe", [None, "int16x8"])
def test_compare_expects_the_precision_of_the_npu(recipe: str | None):
    """Errors add up over layers to more than 0.1%, which is what is expected of a runtime that computes in float32."""
    model, x = deep()
    found = compile_model(model, (x,), recipe).compare(model)
    assert found.ok, str(found)
    assert found.rows[0].own.relative > 1e-3, "the case shows nothing"


def test_compare_finds_an_error_above_the_precision_of_the_npu():
    model, x = deep()
    program = compile_model(model, (x,))
    assert program.computes_in == "float16"
    assert model[-1].bias is not None
    model[-1].bias.data[2] += 0.1  # type: ignore[operator]
    assert not program.compare(model).ok
