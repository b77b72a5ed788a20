"""The profile FP, and models of which only parts are quantized in FP and INT."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from tosa_lowered import CONFIGS, REAL, Call, Several, compared, graphs_of, quantized, random, run_real

from edgecore_tosa.quantizer import TosaQuantizer
from edgecore_tosa.schema import DType, Op
from edgecore_tosa.spec import TosaSpec

BOTH = TosaSpec.parse("TOSA-1.0+INT+FP+int16")
IMAGE = random(1, 6, 8, 10)
POSITIVE = IMAGE.abs() + 0.1

FUNCTIONS = {
    **{name: getattr(torch, name) for name in (
        "abs", "neg", "exp", "sin", "cos", "sigmoid", "tanh", "erf", "expm1", "relu", "floor", "ceil", "square",
    )},
    "leaky relu": lambda x: functional.leaky_relu(x, 0.2),
    "elu": functional.elu,
    "gelu": functional.gelu,
    "gelu by tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
    "hardswish": functional.hardswish,
    "clamp": lambda x: x.clamp(-0.5, 0.75),
    "clamp from below": lambda x: x.clamp(min=-0.5),
    "relu6": lambda x: functional.relu6(x * 4),
    "cube": lambda x: x**3,
    "add a number": lambda x: x + 3,
    "subtract from a number": lambda x: 2 - x,
    "multiply by a number": lambda x: x * -0.3,
    "divide by a number": lambda x: x / 3,
    "softmax": lambda x: x.softmax(1),
    "log softmax": lambda x: x.log_softmax(-1),
    "mean": lambda x: x.mean((2, 3)),
    "max pooling": lambda x: functional.max_pool2d(x, 3, 2, 1),
    "sum with a row": lambda x: x + x[0, 0, 0],
    "product with channels": lambda x: x * x[:, :, :1, :1],
}  # fmt: skip
OF_POSITIVE = {
    name: getattr(torch, name) for name in ("log", "rsqrt", "reciprocal", "sqrt", "log1p", "log2", "log10")
} | {"power": lambda x: x**1.7}

LAYERS = {
    "convolution": lambda: nn.Conv2d(6, 8, 3, 2, 1),
    "convolution with rows left over": lambda: nn.Conv2d(6, 8, 3, (2, 4)),
    "convolution in groups": lambda: nn.Conv2d(6, 8, 3, groups=2, bias=False),
    "depthwise convolution": lambda: nn.Conv2d(6, 12, 3, padding=1, groups=6),
    "convolution and batch norm": lambda: nn.Sequential(nn.Conv2d(6, 8, 3), nn.BatchNorm2d(8), nn.ReLU()),
    "linear": lambda: nn.Linear(10, 7),
    "transposed convolution": lambda: nn.ConvTranspose2d(6, 4, 3, 2, 1, output_padding=1),
}


def cases_of(dtype):
    torch.manual_seed(0)
    functions = {name: (Call(function), (IMAGE.to(dtype),)) for name, function in FUNCTIONS.items()}
    positive = {name: (Call(function), (POSITIVE.to(dtype),)) for name, function in OF_POSITIVE.items()}
    layers = {name: (make().eval().to(dtype), (IMAGE.to(dtype),)) for name, make in LAYERS.items()}
    return functions | positive | layers


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-5), (torch.float16, 4e-3)])
def test_real_numbers_are_those_of_pytorch(dtype, bound):
    for name, outcome in run_real(cases_of(dtype)).items():
        assert outcome.simulator.dtype == outcome.torch.dtype, name
        scale = max(float(np.abs(outcome.torch).max()), 1.0)
        np.testing.assert_allclose(outcome.numpy, outcome.simulator, rtol=bound, atol=bound * scale, err_msg=name)
        np.testing.assert_allclose(outcome.simulator, outcome.torch, rtol=bound, atol=bound * scale, err_msg=name)


SMALL = {
    "expm1": torch.expm1,
    "log1p": torch.log1p,
    "elu": functional.elu,
    "celu": lambda x: functional.celu(x, 0.7),
    "selu": functional.selu,
}
"""Functions that are near a multiple of x for small x, as `exp(x) - 1` and `log(1 + x)` as written are not."""


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 2e-6), (torch.float16, 4e-3)])
def test_small_numbers_keep_their_digits(dtype, bound):
    tiny = torch.finfo(dtype).tiny
    sizes = torch.logspace(math.log10(tiny) + 1, math.log10(0.6), 40, dtype=torch.float64)
    x = torch.cat([sizes, -sizes]).to(dtype).reshape(1, 80)
    exact = {name: function(x.double()) for name, function in SMALL.items()}
    for name, outcome in run_real({name: (Call(function), (x,)) for name, function in SMALL.items()}).items():
        for got in (outcome.numpy, outcome.simulator):
            np.testing.assert_allclose(got.astype(np.float64), exact[name].numpy(), rtol=bound, err_msg=name)


class Parts(nn.Module):
    """Layers, some of which are quantized."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(6, 8, 3), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(8, 8, 3, groups=8), nn.SiLU())
        self.third = nn.Sequential(nn.Conv2d(8, 5, 1), nn.Sigmoid())

    def forward(self, x):
        return self.third(self.second(self.first(x))) * 2


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("real", [["first"], ["second"], ["third"], ["first", "third"]])
def test_a_model_of_which_parts_are_quantized_is_one_graph(real, config):
    torch.manual_seed(0)
    quantizer = TosaQuantizer().set_global(CONFIGS[config]())
    for name in real:
        quantizer.set_module_name(f"models.0.{name}", None)
    cases = {"": (Parts(), (IMAGE,))}
    program = quantized(Several(cases), (IMAGE,), quantizer)
    (outcome,) = compared(cases, program, program.module(check_guards=False)(IMAGE), BOTH).values()
    types = {operator.output.dtype for operator in outcome.graph.operators if operator.op == Op.CONV2D}
    assert types >= {DType.FP32 if "first" in real else DType.INT32 if config == "int8" else DType.INT48}
    step = 2 / 256 if config == "int8" else 2 / 2**12
    np.testing.assert_allclose(outcome.numpy, outcome.simulator, rtol=1e-5, atol=1.01 * step)
    np.testing.assert_allclose(outcome.simulator, outcome.torch, rtol=1e-5, atol=2.01 * step)


@pytest.mark.parametrize("config", CONFIGS)
def test_integers_of_real_numbers_are_exactly_those_of_pytorch(config):
    """Also for ties, for numbers beyond the range, and for odd zero points."""
    dtype = {"int8": torch.int8, "int16x8": torch.int16}[config]
    low, high, zero_point = {"int8": (-128, 127, 5), "int16x8": (-32767, 32767, 0)}[config]
    library = torch.ops.quantized_decomposed

    def function(x):
        integers = library.quantize_per_tensor(x, 0.5, zero_point, low, high, dtype)
        return library.dequantize_per_tensor(integers, 0.5, zero_point, low, high, dtype) * 1.5

    x = torch.cat([torch.arange(-400, 400) / 4, torch.tensor([1e9, -1e9, torch.inf, -torch.inf])])
    (outcome,) = run_real({"": (Call(function), (x,))}, BOTH).values()
    np.testing.assert_array_equal(outcome.numpy, outcome.simulator)
    np.testing.assert_array_equal(outcome.simulator, outcome.torch)


def test_a_profile_without_integers_takes_no_quantized_values():
    _, edge = graphs_of(quantized(nn.ReLU(), (IMAGE,), CONFIGS["int8"]()), REAL)
    assert "TOSA-1.0+FP computes with real numbers only" in str(edge.report())


@pytest.mark.parametrize("name", ["gt", "ge", "lt", "le", "eq", "ne"])
def test_booleans_are_compared_as_pytorch_compares_them(name):
    compare, x, y = getattr(torch, name), random(2, 3, 4), random(2, 3, 4, seed=1)
    cases = {"each other": (Call(lambda x, y: torch.where(compare(x > 0, y > 0), x, y)), (x, y))}
    for number in (0.5, 0, 1, -1, 2):
        cases[f"{number}"] = (Call(lambda x, y, number=number: torch.where(compare(x > 0, number), x, y)), (x, y))
    for name_of_case, outcome in run_real(cases).items():
        np.testing.assert_array_equal(outcome.simulator, outcome.torch, name_of_case)
        np.testing.assert_array_equal(outcome.numpy, outcome.torch, name_of_case)


def test_numbers_of_two_dtypes_are_refused():
    _, edge = graphs_of(torch.export.export(Call(torch.add), (IMAGE, IMAGE.half())), REAL)
    assert "computes with float16 and float32" in str(edge.report())


def of_volumes(weight, transposed):
    """A convolution of volumes that is called as `convolution`, in int8, and its graphs with both profiles."""
    bias, x = random(6), random(2, 4, 5, 6, 7)

    def convolution(x):
        return torch.convolution(x, weight, bias, [1, 2, 1], [1, 1, 0], [1, 1, 1], transposed, [0, 0, 0], 1)

    return graphs_of(quantized(Call(convolution), (x,), CONFIGS["int8"]()), BOTH)


def test_a_convolution_of_volumes_is_whole_whatever_it_is_called_as():
    (graph,), _ = of_volumes(random(6, 4, 3, 3, 2), transposed=False)
    (call,) = [call for call in graph.operators if "CONV" in call.op.name]
    assert call.op == Op.CONV3D and [tensor.dtype for tensor in call.inputs[:2]] == [DType.INT8] * 2


def test_parts_of_a_weight_with_scales_for_each_channel_are_real_numbers():
    """A transposed convolution of volumes becomes some of images, with parts of its weight."""
    graphs, edge = of_volumes(random(4, 6, 3, 3, 2), transposed=True)
    assert "its weight is not a constant" in str(edge.report())
    assert graphs and all(tensor.dtype == DType.FP32 for graph in graphs for tensor in graph.outputs)
