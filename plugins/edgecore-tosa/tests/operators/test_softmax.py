"""Softmax and its logarithm, in integers and in real numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tosa_lowered import CONFIGS, Call, assert_near, graphs_of, quantized, random, run, run_float

SHAPES = {
    "rows": ((2, 8, 6, 6), -1),
    "channels": ((2, 8, 6, 6), 1),
    "long rows": ((3, 1000), 1),
    "the longest rows": ((2, 2048), 1),
    "rows of one element": ((3, 1), 1),
}
FUNCTIONS = {"softmax": torch.softmax, "log_softmax": torch.log_softmax}


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("spread", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_softmax_differs_from_pytorch_by_few_steps(shape, spread, config):
    sizes, dim = SHAPES[shape]
    outcome = run(Call(lambda x: torch.softmax(x, dim)), (random(*sizes, scale=spread),), config)
    np.testing.assert_array_equal(outcome.numpy, outcome.simulator)
    assert outcome.steps.max() <= {"int8": 1, "int16x8": 10}[config], outcome.steps.max()
    if config == "int8":
        assert (outcome.steps > 0).mean() < 0.01


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("magnitude", [0.0, 1e-6, 1e6, 1e12])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_inputs_have_any_magnitude(name, magnitude, config):
    outcome = run(Call(lambda x: FUNCTIONS[name](x, 1)), (random(2, 6, 8, scale=magnitude),), config)
    np.testing.assert_array_equal(outcome.numpy, outcome.simulator)
    assert outcome.steps.max() <= {"int8": 1, "int16x8": 2}[config], outcome.steps.max()


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("shape", ["rows", "channels", "long rows"])
def test_the_logarithm_of_softmax_differs_by_few_steps(shape, config):
    sizes, dim = SHAPES[shape]
    outcome = run(Call(lambda x: torch.log_softmax(x, dim)), (random(*sizes),), config)
    np.testing.assert_array_equal(outcome.numpy, outcome.simulator)
    assert outcome.steps.max() <= {"int8": 1, "int16x8": 2}[config], outcome.steps.max()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_softmax_of_real_numbers_agrees_with_pytorch(name):
    assert_near(run_float(Call(lambda x: FUNCTIONS[name](x, 1)), (random(2, 8, 6, scale=3.0),)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_softmax_of_too_many_elements_is_refused(name):
    call = Call(lambda x: FUNCTIONS[name](x, 1))
    _, edge = graphs_of(quantized(call, (random(1, 3000),), CONFIGS["int8"]()))
    assert "more than 2048 elements along the dim" in str(edge.report())
