"""Functions of one number: quantized they are tables, else TOSA's own operators."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from tosa_lowered import (
    CONFIGS,
    Call,
    assert_near,
    graphs_of,
    library,
    quantized,
    random,
    run,
    run_float,
    run_quantized,
)

ANY = {
    "expm1": torch.expm1,
    "erf": torch.erf,
    "sin": torch.sin,
    "cos": torch.cos,
    "power": lambda x: x**3,
}
POSITIVE = {
    "log": torch.log,
    "log1p": torch.log1p,
    "log2": torch.log2,
    "log10": torch.log10,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
    "power of a fraction": lambda x: x**1.5,
}
QUANTIZED = {
    "mish": functional.mish,
    "celu": functional.celu,
    "selu": functional.selu,
    "log sigmoid": functional.logsigmoid,
    "tan": lambda x: torch.tan(x / 8),
    "atan": torch.atan,
    "softshrink": functional.softshrink,
}
STEPS = {"floor": torch.floor, "ceil": torch.ceil}
ALL = {**ANY, **POSITIVE, **QUANTIZED, **STEPS, "hardshrink": functional.hardshrink}


def numbers(name: str) -> torch.Tensor:
    """Arguments of a function; those of a function with a pole at 0 are not near it, nor are those for calibration."""
    x = random(2, 8, 6, 6)
    return x.clamp(-2, 2) / 2 + 3 if name in POSITIVE else x * 2


@pytest.mark.parametrize("name", ALL)
def test_a_function_of_int8_has_the_integers_of_pytorch(name):
    outcome = run(Call(ALL[name]), (numbers(name),), "int8")
    np.testing.assert_array_equal(outcome.numpy, outcome.simulator)
    assert outcome.steps.max() <= 1 and (outcome.steps > 0).mean() < 0.005


@pytest.mark.parametrize("name", [*ANY, *QUANTIZED, "log1p", "power of a fraction"])
def test_a_function_of_int16_is_interpolated_within_a_few_steps(name):
    outcome = run(Call(ALL[name]), (numbers(name),), "int16x8")
    np.testing.assert_array_equal(outcome.numpy, outcome.simulator)
    assert outcome.steps.max() <= 6, outcome.steps.max()


@pytest.mark.parametrize("name", [*ANY, *POSITIVE, *STEPS])
def test_a_function_of_real_numbers_agrees_with_pytorch(name):
    assert_near(run_float(Call(ALL[name]), (numbers(name),)))


class Converted(nn.Module):
    """A sigmoid from integers of one size to those of another."""

    def __init__(self, source: torch.dtype, result: torch.dtype) -> None:
        super().__init__()
        parameters = {torch.int8: (0.05, 1 / 128, (-128, 127)), torch.int16: (0.05 / 256, 1 / 32768, (-32767, 32767))}
        self.source = (parameters[source][0], 0, *parameters[source][2], source)
        self.result = (parameters[result][1], 0, *parameters[result][2], result)

    def forward(self, x):
        for function, parameters in ((nn.Identity(), self.source), (torch.sigmoid, self.result)):
            integers = library.quantize_per_tensor.default(function(x), *parameters)
            x = library.dequantize_per_tensor.default(integers, *parameters)
        return x


@pytest.mark.parametrize(("source", "result"), [(torch.int8, torch.int16), (torch.int16, torch.int8)])
def test_a_table_may_change_the_number_of_bits(source, result):
    x = numbers("sigmoid")
    outcome = run_quantized(torch.export.export(Converted(source, result), (x,)), (x,))
    np.testing.assert_array_equal(outcome.numpy, outcome.simulator)
    assert outcome.steps.max() <= 1


def test_a_table_of_steps_for_int16_is_refused():
    _, edge = graphs_of(quantized(Call(torch.floor), (numbers("floor"),), CONFIGS["int16x8"]()))
    assert "a table for int16 has no steps" in str(edge.report())


def test_hardshrink_of_int16_is_decomposed_since_a_table_would_have_no_steps():
    graphs, edge = graphs_of(quantized(Call(functional.hardshrink), (numbers("hardshrink"),), CONFIGS["int16x8"]()))
    assert not graphs and "aten.where.self" in str(edge.report())


@pytest.mark.parametrize("config", CONFIGS)
def test_prelu_has_a_weight_for_each_channel(config):
    layer = nn.PReLU(8)
    layer.weight.data = random(8)
    outcome = run(layer, (numbers("prelu"),), config)
    np.testing.assert_array_equal(outcome.numpy, outcome.simulator)
    assert outcome.steps.max() <= {"int8": 1, "int16x8": 4}[config]


@pytest.mark.parametrize("function", [torch.add, torch.sub, torch.mul])
def test_a_constant_operand_of_real_numbers_stays_real(function):
    constant = random(8, 1, 1)
    assert_near(run_float(Call(lambda x: function(x, constant)), (numbers("sum"),)))
