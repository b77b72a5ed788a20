"""Quantized modules as TOSA graphs: numpy and Arm's reference model agree, and PyTorch differs by the steps of `LIMITS`."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
import torch
import tosa_numpy
from torch import nn
from torch.nn import functional
from tosa_lowered import CONFIGS, Call, graphs_of, quantized, random, run, run_quantized

from edgecore_tosa.quantizer import get_symmetric_a8w4_quantization_config
from edgecore_tosa.schema import DType, Op
from edgecore_tosa.simulator import Simulator
from edgecore_tosa.spec import TosaSpec

LIMITS = {"int8": (1, 0.005), "int16x8": (1, 0.03)}
"""The greatest difference from PyTorch in steps of the result, and the greatest part of the results that differ.

PyTorch rounds sums of floats, so ties differ. A step of int16 is 2^-15 of the largest result, and the error of a sum of
floats up to 1 % of that. The scales of weights are those of `with_exact_factors`.
"""


IMAGE = random(1, 8, 12, 12)
SMALL = random(1, 8, 12, 12, seed=1, scale=0.3)

MODULES = {
    "convolution": (lambda: nn.Conv2d(8, 16, 3), (IMAGE,)),
    "convolution with padding": (lambda: nn.Conv2d(8, 16, 3, padding=1), (IMAGE,)),
    "convolution with stride": (lambda: nn.Conv2d(8, 16, 3, padding=1, stride=2), (IMAGE,)),
    "convolution with rows left over": (lambda: nn.Conv2d(8, 16, 3, stride=(2, 4)), (IMAGE,)),
    "convolution with dilation": (lambda: nn.Conv2d(8, 16, (3, 2), padding=(2, 0), dilation=2), (IMAGE,)),
    "convolution without bias": (lambda: nn.Conv2d(8, 16, 1, bias=False), (IMAGE,)),
    "convolution of a batch": (lambda: nn.Conv2d(3, 5, 3, padding=1), (random(3, 3, 7, 9),)),
    "convolution in groups": (lambda: nn.Conv2d(8, 12, 3, padding=1, groups=2), (IMAGE,)),
    "depthwise convolution": (lambda: nn.Conv2d(8, 8, 3, padding=1, groups=8), (IMAGE,)),
    "depthwise convolution with two filters": (lambda: nn.Conv2d(8, 16, 3, groups=8, stride=2), (IMAGE,)),
    "convolution and relu6": (lambda: nn.Sequential(nn.Conv2d(8, 16, 3, stride=2), nn.ReLU6()), (IMAGE,)),
    "convolution, batch norm and relu": (
        lambda: nn.Sequential(nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16), nn.ReLU()),
        (IMAGE,),
    ),
    "two convolutions": (lambda: nn.Sequential(nn.Conv2d(8, 6, 3), nn.ReLU(), nn.Conv2d(6, 4, 3)), (IMAGE,)),
    "linear": (lambda: nn.Linear(24, 40), (random(16, 24),)),
    "linear of one row": (lambda: nn.Linear(24, 100), (random(1, 24),)),
    "linear of three dims": (lambda: nn.Linear(24, 10, bias=False), (random(2, 7, 24),)),
    "linear and relu": (lambda: nn.Sequential(nn.Linear(24, 40), nn.ReLU()), (random(16, 24),)),
    "addition": (lambda: Call(lambda x, y: x + y), (IMAGE, SMALL)),
    "addition with itself": (lambda: Call(lambda x: x + x), (IMAGE,)),
    "subtraction": (lambda: Call(lambda x, y: x - y), (SMALL, IMAGE)),
    "multiplication": (lambda: Call(lambda x, y: x * y), (IMAGE, SMALL)),
    "addition by channel": (lambda: Call(lambda x, y: x + y), (IMAGE, random(8, 1, 1, seed=2))),
    "multiplication by channel": (lambda: Call(lambda x, y: x * y), (random(8, 1, 1, seed=2), IMAGE)),
    "subtraction of a row": (lambda: Call(lambda x, y: x - y), (IMAGE, random(12, seed=3))),
    "addition and relu": (lambda: Call(lambda x, y: torch.relu(x + y)), (IMAGE, SMALL)),
    "clamp": (lambda: Call(lambda x, y: torch.clamp(x + y, -0.5, 0.75)), (IMAGE, SMALL)),
    "clamp of a mean": (  # of an odd number of elements: the mean of an even number is often a tie
        lambda: nn.Sequential(nn.AdaptiveAvgPool2d(1), Call(lambda x: torch.clamp(x, -1.0, 1.5))),
        (random(8, 64, 1, 1) + random(8, 64, 5, 7, seed=1, scale=0.1),),
    ),
    "mean": (lambda: Call(lambda x: x.mean((2, 3))), (random(4, 64, 6, 6, shift=1.0),)),
    "global average pooling": (lambda: nn.AdaptiveAvgPool2d(1), (random(4, 64, 5, 7, shift=1.0),)),
    "max pooling": (lambda: nn.Sequential(nn.Conv2d(8, 8, 1), nn.MaxPool2d(2)), (IMAGE,)),
    "max pooling with padding": (lambda: nn.Sequential(nn.Conv2d(8, 8, 1), nn.MaxPool2d(3, 2, 1)), (IMAGE,)),
    "max pooling with rows left over": (lambda: nn.Sequential(nn.Conv2d(8, 8, 1), nn.MaxPool2d((5, 3), 3)), (IMAGE,)),
    "max pooling to the ceiling": (lambda: nn.Sequential(nn.Conv2d(8, 8, 1), nn.MaxPool2d(3, 2, ceil_mode=True)), (IMAGE,)),
    "concatenation": (lambda: Call(lambda x, y: torch.cat([x * y, x + y], 1)), (IMAGE, SMALL)),
    "concatenation of convolutions": (
        lambda: Branches(lambda x, y: torch.cat([x, y], 1)),
        (IMAGE,),
    ),
    "slice": (lambda: Branches(lambda x, y: x[:, 1:4, 2:-2] + y[:, :3, -10:]), (random(1, 8, 14, 14),)),
    "view of an image": (lambda: Branches(lambda x, y: (x + y).reshape(2, -1)), (random(2, 8, 6, 6),)),
    "permute of an image": (lambda: Branches(lambda x, y: (x + y).permute(0, 3, 1, 2)), (random(2, 8, 6, 6),)),
    "permute and linear": (
        lambda: nn.Sequential(nn.Linear(24, 20), Call(lambda x: x.permute(0, 2, 1)), nn.Linear(16, 12)),
        (random(2, 16, 24),),
    ),
    "transpose and linear": (
        lambda: nn.Sequential(nn.Linear(24, 20), Call(lambda x: x.transpose(-1, 1)), nn.Linear(16, 12)),
        (random(2, 16, 24),),
    ),
    "classifier": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.ReLU6(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 200),
        ),
        (random(2, 3, 16, 16),),
    ),
}  # fmt: skip


class Branches(nn.Module):
    """Two convolutions of one image, and a function of both."""

    def __init__(self, function):
        super().__init__()
        self.left, self.right = nn.Conv2d(8, 6, 1), nn.Conv2d(8, 6, 1)
        self.function = function

    def forward(self, x):
        return self.function(self.left(x), self.right(x))


FUNCTIONS = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "silu": functional.silu,
    "hardswish": functional.hardswish,
    "hardsigmoid": functional.hardsigmoid,
    "gelu": functional.gelu,
    "gelu by tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "elu": functional.elu,
    "leaky relu": lambda x: functional.leaky_relu(x, 0.1),
    "softplus": functional.softplus,
    "exp": torch.exp,
    "abs": torch.abs,
    "neg": torch.neg,
    "square": torch.square,
    "product with a number": lambda x: x * 2.5,
    "product with a negative number": lambda x: x * -0.4,
    "quotient by a number": lambda x: x / 3,
    "sum with a number": lambda x: x + 3,
    "difference from a number": lambda x: 1 - x,
    "softmax of rows": lambda x: torch.softmax(x, -1),
    "softmax of channels": lambda x: torch.softmax(x, 1),
    "softmax of long rows": lambda x: torch.softmax(x.reshape(1, -1), -1),
    "log softmax": lambda x: torch.log_softmax(x, 1),
    "squeeze and excitation": lambda x: x * torch.sigmoid(x.mean((2, 3), keepdim=True) * 4),
}
"""Functions of one tensor. For int16, TABLE interpolates, and the step is much smaller than the error of a float32 ulp."""


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_the_integers_of_pytorch(name, config):
    outcome = run(Call(FUNCTIONS[name]), (IMAGE,), config)
    np.testing.assert_array_equal(outcome.numpy, outcome.simulator)
    most_steps = {"int8": 1, "int16x8": 3}[config]
    assert outcome.steps.max() <= most_steps
    if config == "int8":
        assert (outcome.steps > 0).mean() <= 0.005


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("name", MODULES)
def test_a_module_has_the_integers_of_pytorch(name, config):
    torch.manual_seed(0)
    make, inputs = MODULES[name]
    outcome = run(make(), inputs, config)
    np.testing.assert_array_equal(outcome.numpy, outcome.simulator)
    assert outcome.simulator.shape == outcome.torch.shape and np.unique(outcome.simulator).size > 20
    most_steps, most_differences = LIMITS[config]
    differences = (outcome.steps > 0).mean()
    assert outcome.steps.max() <= most_steps and differences <= most_differences, (outcome.steps.max(), differences)


@pytest.mark.parametrize("name", ["convolution", "depthwise convolution", "linear of three dims", "linear and relu"])
def test_sums_of_int16_are_scaled_as_precisely_as_multipliers_of_15_bits_allow(name):
    torch.manual_seed(0)
    make, inputs = MODULES[name]
    program = quantized(make(), inputs, CONFIGS["int16x8"]())
    outcome = run_quantized(program, inputs)
    np.testing.assert_array_equal(outcome.numpy, outcome.simulator)
    # A factor has a relative error of up to 2^-15, so that a result is off by up to 2^-15 of itself, less than a step,
    # before it is rounded. If it is off by a part of a step, it is rounded to another integer with this probability.
    chances = np.abs(outcome.torch.astype(np.float64)) * 2.0**-15
    expected, deviation = chances.sum(), np.sqrt((chances * (1 - chances)).sum())
    by_float = LIMITS["int16x8"][1] * chances.size
    assert outcome.steps.max() == 1 and (outcome.steps > 0).sum() <= expected + 3 * deviation + by_float


@pytest.mark.parametrize("is_per_channel", [True, False])
@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith(("convolution", "depthwise", "linear"))])
def test_a_layer_with_int4_weights_has_the_integers_of_pytorch(name, is_per_channel):
    torch.manual_seed(0)
    make, inputs = MODULES[name]
    config = get_symmetric_a8w4_quantization_config(is_per_channel)
    with patch.dict(CONFIGS, {"a8w4": lambda: config}):
        outcome = run(make(), inputs, "a8w4")
    layers = [operator for operator in outcome.graph.operators if operator.op in (Op.CONV2D, Op.DEPTHWISE_CONV2D)]
    assert layers and {layer.inputs[1].dtype for layer in layers} == {DType.INT4}
    np.testing.assert_array_equal(outcome.numpy, outcome.simulator)
    assert outcome.steps.max() <= 1 and (outcome.steps > 0).mean() <= 0.005 and np.unique(outcome.simulator).size > 20


def test_weights_of_four_bits_are_int8_for_a_target_without_int4():
    config = get_symmetric_a8w4_quantization_config()
    (graph,), _ = graphs_of(quantized(nn.Linear(24, 40), (random(16, 24),), config), TosaSpec.parse("TOSA-1.0+INT"))
    assert DType.INT4 not in {tensor.dtype for operator in graph.operators for tensor in operator.inputs}


def test_a_model_of_nothing_but_data_movement_is_lowered():
    graphs, edge = graphs_of(quantized(nn.MaxPool2d(2), (IMAGE,), CONFIGS["int8"]()))
    assert len(graphs) == 1, edge.report()


def test_real_numbers_outside_of_a_partition_leave_no_tosa():
    program = torch.export.export(nn.MaxPool2d(2).eval(), (IMAGE,))
    graphs, edge = graphs_of(program)
    assert not graphs and "not delegated: aten.max_pool2d" in str(edge.report())


@pytest.mark.parametrize("name", ["convolution in groups", "mean"])
def test_sums_of_int16_keep_to_the_operators_of_tosa(name):
    torch.manual_seed(0)
    make, inputs = MODULES[name]
    graph = run(make(), inputs, "int16x8").graph
    for operator in graph.operators:
        assert operator.op not in (Op.CONCAT, Op.RESHAPE) or operator.output.dtype != DType.INT48


def test_a_layer_is_followed_by_one_rescale():
    names = [operator.op for operator in run(nn.Conv2d(8, 16, 3), (IMAGE,), "int8").graph.operators]
    assert names == [Op.TRANSPOSE, Op.CONV2D, Op.RESCALE, Op.TRANSPOSE]


def test_dims_are_not_transposed_between_layers():
    make, inputs = MODULES["classifier"]
    names = [operator.op for operator in run(make(), inputs, "int8").graph.operators]
    assert names.count(Op.TRANSPOSE) == 1 and names[0] == Op.TRANSPOSE


@pytest.mark.parametrize("config", CONFIGS)
def test_a_specification_with_both_profiles_converts_real_inputs_and_outputs_as_pytorch(config):
    inputs = (torch.randn(4, 6, generator=torch.Generator().manual_seed(4)),)
    program = quantized(nn.ReLU(), inputs, CONFIGS[config]())
    (graph,), edge = graphs_of(program, TosaSpec.parse("TOSA-1.0+INT+FP+int16"))
    assert "not delegated" not in str(edge.report())
    far = torch.tensor([-1e6, 1e6, 0.0, 1.0, -1.0, 0.5]).expand(4, 6).contiguous()
    for x in (*inputs, far):
        arrays = [x.numpy()]
        expected = program.module(check_guards=False)(x).numpy()
        (ours,), (theirs,) = tosa_numpy.run(graph.to_bytes(), arrays), Simulator(graph.to_bytes()).run(*arrays)
        assert np.array_equal(ours, expected) and np.array_equal(theirs, expected)


def test_a_layer_of_float16_has_results_of_float16():
    program = torch.export.export(nn.Conv2d(2, 3, 3).eval().half(), (torch.randn(1, 2, 5, 5).half(),))
    (graph,), _ = graphs_of(program, TosaSpec.parse("TOSA-1.0+FP"))
    (layer,) = [operator for operator in graph.operators if operator.op == Op.CONV2D]
    assert layer.output.dtype == DType.FP16 and layer.attribute.acc_type == DType.FP32
    assert layer.inputs[2].dtype == DType.FP16
