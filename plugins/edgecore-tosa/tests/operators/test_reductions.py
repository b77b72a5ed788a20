"""Reductions, average pooling, comparisons and quotients as TOSA graphs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional
from tosa_lowered import CONFIGS, Call, assert_near, graphs_of, quantized, random, run, run_float

from edgecore_tosa.schema import DType
from edgecore_tosa.spec import TosaSpec

LIMITS = {"int8": 1, "int16x8": 2}
"""The greatest difference from PyTorch in steps of the result."""

IMAGE, OTHER = random(2, 8, 9, 9), random(2, 8, 9, 9, seed=1)

REDUCTIONS = {
    "sum of channels": lambda x: x.sum(1),
    "sum of rows": lambda x: x.sum(-1, keepdim=True),
    "sum of three dims": lambda x: x.sum((0, 2, 3)),
    "mean of channels": lambda x: x.mean(1),
    "mean of columns": lambda x: x.mean(3, keepdim=True),
    "mean of all but channels": lambda x: x.mean((0, 2, 3)),
    "largest of channels": lambda x: x.amax(1),
    "largest of rows and columns": lambda x: x.amax((2, 3), keepdim=True),
    "smallest of columns": lambda x: x.amin(-1),
    "sum of all": lambda x: x.sum(),
    "sum of all dims": lambda x: x.sum((0, 1, 2, 3)),
    "difference from the mean of all": lambda x: x - x.mean(),
    "largest of all": lambda x: x.max(),
    "smallest of all": lambda x: x.amin(),
    "values of the largest of rows": lambda x: x.max(2).values * 2,
    "values of the smallest of columns": lambda x: x.min(3, keepdim=True)[0],
}
POOLS = {
    "average pooling": lambda x: functional.avg_pool2d(x, 3),
    "average pooling with padding": lambda x: functional.avg_pool2d(x, 3, 2, 1),
    "average pooling without the padding": lambda x: functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "average pooling to the ceiling": lambda x: functional.avg_pool2d(x, 4, 2, ceil_mode=True),
    "average pooling with padding to the ceiling": lambda x: functional.avg_pool2d(x, (4, 3), 2, 1, ceil_mode=True),
    "average pooling with rows left over": lambda x: functional.avg_pool2d(x, 2, 3),
    "average pooling with a divisor": lambda x: functional.avg_pool2d(x, 3, 2, 1, divisor_override=5),
    "divisor and ceiling": lambda x: functional.avg_pool2d(x, 4, 2, ceil_mode=True, divisor_override=7),
    "adaptive average pooling": lambda x: functional.adaptive_avg_pool2d(x, 3),
}
ROW = random(9, seed=2)
PAIRS = {
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "maximum with a row": lambda x, y: torch.maximum(x, ROW) + y,
    "quotient by a constant": lambda x, y: x / (ROW.abs() + 0.5) + y,
}
SELECTIONS = {
    "the larger one": lambda x, y: torch.where(x > y, x, y),
    "at most a number": lambda x, y: torch.where(x <= 0.3, x, y),
    "at least a number": lambda x, y: torch.where(x >= -0.4, x * 2, y),
    "less than another": lambda x, y: torch.where(x < y, y, 0.5),
    "two conditions": lambda x, y: torch.where((x > 0) & (y < 0.25) | ~(x != 0), x, -y),
    "equal to zero": lambda x, y: torch.where(torch.relu(x) == 0, y, x),
    "a constant condition": lambda x, y: torch.where(ROW > 0, x, y),
}
ALL = {name: (function, (IMAGE,)) for name, function in {**REDUCTIONS, **POOLS}.items()} | {
    name: (function, (IMAGE, OTHER)) for name, function in {**PAIRS, **SELECTIONS}.items()
}


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("name", ALL)
def test_an_operator_has_the_integers_of_pytorch(name, config):
    function, inputs = ALL[name]
    outcome = run(Call(function), inputs, config)
    np.testing.assert_array_equal(outcome.numpy, outcome.simulator)
    assert outcome.simulator.shape == outcome.torch.shape
    assert outcome.steps.max() <= LIMITS[config], outcome.steps.max()


@pytest.mark.parametrize("name", [*ALL, "quotient"])
def test_an_operator_on_real_numbers_agrees_with_pytorch(name):
    function, inputs = {**ALL, "quotient": (torch.div, (IMAGE, OTHER.abs() + 0.5))}[name]
    assert_near(run_float(Call(function), inputs))


def test_sums_of_int16_have_32_bits():
    """A sum of 48 bits could only be scaled by a factor of 16 bits."""
    outcome = run(Call(REDUCTIONS["sum of three dims"]), (IMAGE,), "int16x8")
    assert DType.INT48 not in {operator.output.dtype for operator in outcome.graph.operators}
    assert outcome.steps.max() <= 1


U55 = TosaSpec.parse("TOSA-1.0+INT+int16+u55")
REFUSED = {
    "Ethos-U55 and U65 lack this operator": (SELECTIONS["the larger one"], (IMAGE, OTHER), U55),
    "its result is int64, not float32": (lambda x: x.max(1)[1] + 1, (IMAGE,), None),
    "a sum of 40000 elements, which may overflow 32 bits": (lambda x: x.sum(1), (random(2, 40000),), None),
    "windows of different sizes, from [9, 9] to [5, 5]": (
        lambda x: functional.adaptive_avg_pool2d(x, 5),
        (IMAGE,),
        None,
    ),
    "its divisor is not a constant": (lambda x, y: x / (y * y + 1), (IMAGE, OTHER), None),
    "its argument other is not finite": (lambda x, y: torch.where(x > y, x, -math.inf), (IMAGE, OTHER), None),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_a_call_that_integers_cannot_have_is_refused(reason):
    function, inputs, spec = REFUSED[reason]
    program = quantized(Call(function), inputs, CONFIGS["int16x8" if "40000" in reason else "int8"]())
    _, edge = graphs_of(program, spec) if spec else graphs_of(program)
    assert reason in str(edge.report())
