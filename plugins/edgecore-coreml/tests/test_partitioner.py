"""Weights that stay outside of the delegate and are its inputs, with `take_over_constant_data=False`."""

from __future__ import annotations

import sys

import pytest
import torch

import edgecore
from edgecore.format import read_pte
from edgecore_coreml.package.files import unpack
from edgecore_coreml_standin.interpreter import StandIn

BACKEND = edgecore.Backend("coreml", take_over_constant_data=False)


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(9, 4)
        self.linear = torch.nn.Linear(4, 3)
        self.register_buffer("order", torch.tensor([2, 0]))

    def forward(self, tokens):
        return torch.relu(self.linear(self.embedding(tokens)))[..., self.order]


TOKENS = torch.tensor([[1, 8, 0]])


def test_weights_are_inputs_of_the_delegate():
    model = Network().eval()
    program = edgecore.compile(model, (TOKENS,), backends=[BACKEND])
    (blob,) = read_pte(bytes(program.buffer)).delegate_blobs
    package = unpack(bytes(blob), {})
    values = {"tokens": TOKENS}
    values |= {f"p_{name.replace('.', '_')}": value for name, value in model.named_parameters()}
    values |= {f"b_{name}": value for name, value in model.named_buffers()}
    assert set(package.inputs) == set(values) and not package.weights
    (result,) = StandIn(bytes(blob), {})(*(values[name].detach() for name in package.inputs))
    torch.testing.assert_close(result, model(TOKENS))


@pytest.mark.skipif(sys.platform != "linux", reason="the stand-in is for Linux")
def test_a_file_gives_its_weights_to_the_delegate(tmp_path):
    model, path = Network().eval(), tmp_path / "model.pte"
    edgecore.compile(model, (TOKENS,), backends=[BACKEND]).save(path)
    options = {"standin": sys.executable, "model_cache_folder": str(tmp_path)}
    loaded = edgecore.load(path, options={"coreml": options})
    for tokens in (TOKENS, TOKENS.flip(1)):
        torch.testing.assert_close(loaded.forward(tokens), model(tokens))


def test_two_models_with_other_weights_have_one_model_package():
    """The device compiles the model once, whatever the weights are."""
    blobs = [
        read_pte(bytes(edgecore.compile(Network().eval(), (TOKENS,), backends=[BACKEND]).buffer)) for _ in range(2)
    ]
    assert blobs[0].delegate_blobs == blobs[1].delegate_blobs


@pytest.mark.parametrize("precision", [None, "FLOAT16"])
@pytest.mark.parametrize(
    ("layer", "shape", "target"),
    [
        (torch.nn.Conv1d(3, 4, 3, padding=1), (1, 3, 8), "iOS15"),
        (torch.nn.Conv2d(4, 6, 3, 2, 1, groups=2), (1, 4, 8, 8), "iOS15"),
        (torch.nn.Conv2d(4, 4, 3, groups=4, bias=False), (1, 4, 8, 8), "iOS15"),
        (torch.nn.ConvTranspose2d(4, 6, 3, 2, 1), (1, 4, 5, 5), "iOS17"),
        (torch.nn.Sequential(torch.nn.Conv2d(4, 6, 3), torch.nn.BatchNorm2d(6)), (1, 4, 5, 5), "iOS15"),
    ],
    ids=["1d", "groups", "depthwise", "transposed", "batch norm"],
)
def test_weights_of_convolutions_are_inputs(layer, shape, target, precision):
    model, x = layer.eval(), torch.randn(shape)
    backend = edgecore.Backend("coreml", take_over_constant_data=False, compute_precision=precision, required=True)
    program = edgecore.compile(model, (x,), backends=[backend])
    data = read_pte(bytes(program.buffer))
    standin = StandIn(bytes(data.delegate_blobs[0]), {})
    assert not standin.package.weights and "operators delegated: 1 of 1" in str(program.report())
    loaded = edgecore.load(bytes(program.buffer), options={"coreml": {"standin": sys.executable}})
    tolerance = {"rtol": 0, "atol": 0.01} if precision else {}
    torch.testing.assert_close(loaded.forward(x), model(x), **tolerance)
    assert f"{target} or later" in str(program.report())


def test_a_convolution_takes_a_weight_that_the_model_computes():
    class Filtered(torch.nn.Module):
        def forward(self, x, weight):
            return torch.conv2d(x, weight.tanh())

    x, weight = torch.randn(1, 3, 8, 8), torch.randn(4, 3, 3, 3)
    backend = edgecore.Backend("coreml", required=True)
    program = edgecore.compile(Filtered().eval(), (x, weight), backends=[backend])
    (blob,) = read_pte(bytes(program.buffer)).delegate_blobs
    standin, values = StandIn(bytes(blob), {}), {"x": x, "weight": weight}
    (result,) = standin(*(values[name] for name in standin.package.inputs))
    torch.testing.assert_close(result, Filtered()(x, weight))


class Masked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.tensor([True, False]))
        self.register_buffer("factor", torch.tensor(3.0))

    def forward(self, x):
        return torch.where(self.mask, x * self.factor, x + 1)


@pytest.mark.parametrize(
    ("model", "shape", "reason"),
    [
        (
            torch.nn.Conv2d(3, 4, 3, dilation=2),
            (1, 3, 8, 8),
            "coremltools takes a dilation with constant weights only, with take_over_constant_data=False",
        ),
        (
            torch.nn.LayerNorm(8),
            (2, 8),
            "coremltools takes weight as a constant only, with take_over_constant_data=False",
        ),
        (Masked(), (2,), "constants that are booleans cannot be inputs"),
        (Masked(), (2,), "constants that are tensors without dims cannot be inputs"),
    ],
    ids=["dilation", "layer norm", "boolean", "number"],
)
def test_operators_that_need_constants_run_elsewhere(model, shape, reason):
    x = torch.randn(shape)
    program = edgecore.compile(model.eval(), (x,), backends=[BACKEND])
    assert reason in str(program.report())


def test_quantized_weights_become_floating_point_before_the_delegate():
    model, x = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU()).eval(), torch.randn(2, 64)
    program = edgecore.compile(model, (x,), backends=[BACKEND], quantize="int8-weights")
    (blob,) = read_pte(bytes(program.buffer)).delegate_blobs
    assert len(unpack(bytes(blob), {}).inputs) == 3
    assert "operators delegated: 2 of 3" in str(program.report())
