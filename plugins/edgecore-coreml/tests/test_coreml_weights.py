"""Weights as inputs of the delegate, with `take_over_constant_data=False`: they are constants of the file."""

from __future__ import annotations

import sys

import pytest
import torch

import edgecore
from edgecore.format import read_pte
from edgecore_coreml.compiler import CoreMLCompiler
from edgecore_coreml.package import unpack

functional = torch.nn.functional
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the stand-in is for Linux")


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 16, 3, padding=1)
        self.norm = torch.nn.GroupNorm(4, 16)
        self.linear = torch.nn.Linear(16 * 16, 10)
        self.register_buffer("scale", torch.rand(10) + 0.5)

    def forward(self, x):
        x = functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
        return torch.softmax(self.linear(x.flatten(1)) * self.scale, -1)


def compiled(model, *inputs, **options):
    backend = edgecore.Backend("coreml", take_over_constant_data=False, **options)
    return edgecore.compile(model.eval(), inputs, backends=[backend])


def load(program, folder):
    program.save(folder / "model.pte")
    standin = {"standin": sys.executable, "model_cache_folder": str(folder)}
    return edgecore.load(folder / "model.pte", options={"coreml": standin})


def test_the_model_has_no_weights_and_computes_what_eager_does(tmp_path):
    model, x = Classifier(), torch.randn(2, 3, 8, 8)
    program = compiled(model, x, required=True)
    (blob,) = read_pte(bytes(program.buffer)).delegate_blobs
    package = unpack(bytes(blob), {})
    floats = sum(tensor.numel() for tensor in model.state_dict().values())
    assert len(package.inputs) == 1 + len(model.state_dict())
    assert len(package.weights) < 4 * floats / 100 and len(program.buffer) > 4 * floats
    assert "input p_linear_weight: float32 [10, 256]" in CoreMLCompiler().describe_blob(bytes(blob), {})
    torch.testing.assert_close(load(program, tmp_path).forward(x), model(x), rtol=1e-4, atol=1e-5)


def test_the_system_is_the_oldest_that_takes_the_weights():
    linear = torch.nn.Linear(8, 4)
    assert "iOS15 or later" in str(compiled(linear, torch.randn(2, 8), required=True).report())
    conv = torch.nn.Conv2d(3, 4, 3)
    assert "iOS18 or later" in str(compiled(conv, torch.randn(1, 3, 8, 8), required=True).report())


@pytest.mark.parametrize(
    ("model", "shape"), [(torch.nn.LayerNorm(8), (2, 8)), (torch.nn.ConvTranspose2d(4, 6, 3), (1, 4, 8, 8))]
)
def test_an_operator_that_needs_constants_runs_elsewhere(tmp_path, model, shape):
    model, x = torch.nn.Sequential(torch.nn.Sigmoid(), model, torch.nn.Sigmoid()), torch.randn(shape)
    program = compiled(model, x)
    assert "Core ML needs its weight as a constant" in str(program.report())
    torch.testing.assert_close(load(program, tmp_path).forward(x), model(x), rtol=1e-4, atol=1e-5)


def test_an_operator_that_needs_constants_is_decomposed_if_it_can_be(tmp_path):
    model, x = torch.nn.PReLU(4), torch.randn(2, 4, 8)
    torch.testing.assert_close(load(compiled(model, x, required=True), tmp_path).forward(x), model(x))


def test_a_constant_that_no_model_takes_stays_out_with_its_operator(tmp_path):
    class Masked(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mask", torch.tensor([True, False, True]))

        def forward(self, x):
            return torch.where(self.mask, torch.exp(x) + 1.0, x)

    model, x = Masked(), torch.randn(2, 3)
    program = compiled(model, x)
    assert "reads booleans that are computed outside the delegate" in str(program.report())
    torch.testing.assert_close(load(program, tmp_path).forward(x), model(x))
