"""Norms as TOSA graphs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from tosa_lowered import CONFIGS, REAL, Call, assert_near, graphs_of, quantized, random, run, run_float

from edgecore_tosa.schema import Op

LIMITS = {"int8": 1, "int16x8": 4}
"""The greatest difference from PyTorch in steps of the result: for int16 the table of square roots is exact to 2**-14."""

ROWS, IMAGE = random(2, 10, 48, scale=2.0, shift=0.5), random(2, 8, 6, 6, shift=1.0)


def affine(norm: nn.Module) -> nn.Module:
    """Give a norm a weight and a bias that are not 1 and 0."""
    for index, parameter in enumerate(norm.parameters()):
        parameter.data = random(*parameter.shape, seed=index, shift=1 - index)
    return norm


NORMS = {
    "layer norm": (lambda: affine(nn.LayerNorm(48)), ROWS),
    "layer norm without weight": (lambda: nn.LayerNorm(48, elementwise_affine=False), ROWS),
    "layer norm without bias": (lambda: affine(nn.LayerNorm(48, bias=False)), ROWS),
    "layer norm of two dims": (lambda: affine(nn.LayerNorm([6, 6])), IMAGE),
    "layer norm of long rows": (lambda: affine(nn.LayerNorm(1024)), random(3, 1024)),
    "layer norm of channels": (
        lambda: nn.Sequential(
            nn.Conv2d(8, 8, 1), Call(lambda x: x.permute(0, 2, 3, 1)), affine(nn.LayerNorm(8)),
            Call(lambda x: x.permute(0, 3, 1, 2)), nn.Conv2d(8, 8, 1),
        ),
        IMAGE,
    ),
    "root mean square": (lambda: affine(nn.RMSNorm(48)), ROWS),
    "group norm": (lambda: affine(nn.GroupNorm(2, 8)), IMAGE),
    "group norm of rows": (lambda: affine(nn.GroupNorm(4, 16)), random(3, 16, 10)),
    "instance norm": (lambda: affine(nn.InstanceNorm2d(8, affine=True)), IMAGE),
    "norm with a large eps": (lambda: nn.LayerNorm(48, eps=30.0), ROWS),
    "norm without eps": (lambda: nn.LayerNorm(48, eps=0.0), ROWS),
}  # fmt: skip


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("name", NORMS)
def test_a_norm_has_the_integers_of_pytorch(name, config):
    torch.manual_seed(0)
    make, x = NORMS[name]
    outcome = run(make(), (x,), config)
    np.testing.assert_array_equal(outcome.numpy, outcome.simulator)
    assert outcome.simulator.shape == outcome.torch.shape and np.unique(outcome.simulator).size > 20
    assert outcome.steps.max() <= LIMITS[config], outcome.steps.max()


@pytest.mark.parametrize("name", NORMS)
def test_a_norm_of_real_numbers_agrees_with_pytorch(name):
    torch.manual_seed(0)
    make, x = NORMS[name]
    assert_near(run_float(make(), (x,)))


ROW = random(1, 256)
UNEVEN = {
    "rows of very different size": torch.cat([ROW, ROW * 0.05, ROW * 0.01]),
    "rows far from zero": torch.cat([ROW * 0.02 + 3, ROW * 0.02 - 3]),
    "a row that is constant": torch.cat([ROW, torch.full((1, 256), 0.7), ROW * 0.5]),
    "a row with one large element": torch.cat([ROW * 0.02, ROW]).index_fill(1, torch.tensor([7]), 4.0),
}


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("name", UNEVEN)
def test_a_norm_is_as_precise_for_each_row(name, config):
    outcome = run(nn.LayerNorm(256), (UNEVEN[name],), config)
    np.testing.assert_array_equal(outcome.numpy, outcome.simulator)
    assert outcome.steps.max() <= LIMITS[config], outcome.steps.max(1)


def test_a_norm_of_int8_over_few_elements_needs_no_extremes():
    """Vela takes more cycles for a maximum over rows than for the other operators of a norm together."""
    rows = torch.cat([ROW, ROW])
    found = run(nn.LayerNorm(256), (rows,), "int8").graph.operators
    assert not {Op.REDUCE_MAX, Op.REDUCE_MIN} & {operator.op for operator in found}
    large = [operator for operator in found if operator.output.shape == rows.shape]
    assert len(large) <= 8, [operator.op.name for operator in large]
    # An NPU would read constants of 32 bits from flash for each row.
    assert not [x for one in large for x in one.inputs if x.data is not None and x.data.nbytes > 4]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 17, 255, 256, 257])
@pytest.mark.parametrize("eps", [1e-12, 1e-3, 0.1])
def test_a_norm_is_as_precise_for_each_number_of_elements(count, eps):
    x = torch.cat([random(4, count, seed=count, scale=scale) for scale in (0.02, 0.3, 1.0)])
    outcome = run(nn.LayerNorm(count, eps=eps), (x,), "int8")
    np.testing.assert_array_equal(outcome.numpy, outcome.simulator)
    assert outcome.steps.max() <= LIMITS["int8"], outcome.steps.max(1)


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("eps", [3.0, 1e4])
@pytest.mark.parametrize(("module", "count"), [(nn.LayerNorm, 2), (nn.LayerNorm, 300), (nn.RMSNorm, 16)])
def test_a_norm_is_as_precise_beside_a_large_eps(module, count, eps, config):
    outcome = run(module(count, eps=eps), (random(16, count, scale=0.01),), config)
    np.testing.assert_array_equal(outcome.numpy, outcome.simulator)
    assert outcome.steps.max() <= LIMITS[config], outcome.steps.max(1)


def test_a_norm_over_too_many_elements_is_refused():
    _, edge = graphs_of(quantized(nn.GroupNorm(1, 3), (random(1, 3, 200, 200),), CONFIGS["int8"]()))
    assert "a norm over more than 65536 elements" in str(edge.report())


def test_a_norm_whose_weight_is_computed_is_refused():
    call = Call(lambda x, weight: functional.layer_norm(x, (48,), weight.exp()))
    _, edge = graphs_of(quantized(call, (ROWS, random(48)), CONFIGS["int8"]()))
    assert "its weight is not a constant" in str(edge.report())


def test_a_norm_whose_mean_is_read_is_refused():
    call = Call(lambda x: torch.native_layer_norm(x, [48], None, None, 1e-5)[1])
    program = torch.export.export(call, (ROWS,))
    _, edge = graphs_of(program, REAL)
    assert "its mean or standard deviation is read" in str(edge.report())


@pytest.mark.parametrize("config", CONFIGS)
def test_a_norm_that_is_called_with_all_its_results_has_integers_too(config):
    layer = Call(lambda x: torch.native_layer_norm(x, [48], None, None, 1e-5)[0])
    groups = Call(lambda x: torch.native_group_norm(x, None, None, 2, 8, 36, 2, 1e-5)[0])
    for module, x in ((layer, ROWS), (groups, IMAGE)):
        outcome = run(module, (x,), config)
        np.testing.assert_array_equal(outcome.numpy, outcome.simulator)
        assert outcome.steps.max() <= LIMITS[config], outcome.steps.max()
