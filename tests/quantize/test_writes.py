"""Quantization keeps every write through a view and every state, and never changes the model of the user."""

import copy
from functools import cache

import pytest
import torch
from torch.utils._pytree import tree_map
from written_networks import SAMPLES, Forms, Stateful

import edgecore
from edgecore.backend import Backend
from edgecore.pipeline.compile import _compilers
from edgecore.plugin import QuantizingCompiler
from edgecore.quantize import make_plan, quantize_model, recipes_of
from edgecore.quantize.kernels import NAME, RECIPES

CALLS = 4
BOUNDS = {"int4-weights": 0.2, "palette4": 0.3}
"""Largest error relative to the largest magnitude, where it is not that of 8 bits."""


def recipes():
    installed = [backend.name for backend in edgecore.backends() if backend.state == "ok"]
    compilers = _compilers([Backend(name) for name in installed])
    names = {name: one.recipes() for name, one in compilers.items() if isinstance(one, QuantizingCompiler)}
    pairs = [(backend, recipe) for backend, of_backend in {**names, NAME: RECIPES}.items() for recipe in of_backend]
    return [pytest.param(*pair, marks=[] if _is_quick(*pair) else pytest.mark.full) for pair in pairs]


def _is_quick(backend, recipe):
    """Return True for recipes with a quantizer; the one of `vgf` is that of `ethosu`."""
    return backend != "vgf" and recipe.startswith("int") and not recipe.endswith("weights")


@cache
def case(network):
    """Return a network, its exported program, its results of some calls in a row, and its state before."""
    model = network().eval().requires_grad_(False)
    with torch.no_grad():
        exported = torch.export.export(model, SAMPLES[0])
    return model, exported, results(copy.deepcopy(model)), {name: value.clone() for name, value in tensors(model)}


def tensors(model):
    return [*model.named_parameters(), *model.named_buffers()]


def plan_of(backend, recipe):
    compilers = {} if backend == NAME else _compilers([Backend(backend)])
    return make_plan({backend: recipe}, compilers, with_kernels=True)


def results(function):
    """Return the results of some calls in a row."""
    return [tree_map(torch.clone, function(*SAMPLES[index % len(SAMPLES)])) for index in range(CALLS)]


def errors(got, want):
    """Yield call, name and largest error relative to the largest magnitude."""
    for call, (mine, theirs) in enumerate(zip(got, want, strict=True)):
        for name, value in theirs.items():
            yield call, name, float((mine[name] - value).abs().max() / value.abs().max())


@pytest.mark.parametrize("network", [Forms, Stateful])
@pytest.mark.parametrize(("backend", "recipe"), recipes())
def test_every_write_is_kept_and_the_model_stays_as_it_is(network, backend, recipe):
    model, exported, wanted, before = case(network)
    plan = plan_of(backend, recipe)
    calibration = SAMPLES if any(one.method.calibrates for one in recipes_of(plan)) else None
    program = quantize_model(exported, plan, calibration).program
    assert [name for name, value in tensors(model) if not torch.equal(value, before[name])] == []
    with torch.no_grad():
        got = results(program.module(check_guards=False))
    assert [row for row in errors(got, wanted) if row[2] > BOUNDS.get(recipe, 0.05)] == []
