"""Check small networks in float and with the backend's quantization recipes. A backend may support only some nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn

from edgecore.conformance.check import BackendUnderTest, Check, Failed, Skipped
from edgecore.conformance.programs import (
    check_reasons,
    check_results,
    compiled,
    delegated_calls,
    eager,
    error_by_norm,
    load,
    network,
    outputs,
)
from edgecore.conformance.samples.network_models import NETWORKS, Inputs
from edgecore.errors import NothingToQuantize


def delegated(subject: BackendUnderTest) -> tuple[str, nn.Module, Inputs, Any]:
    """Return the network with the most delegated operator calls: its name, module, inputs and compiled program."""
    counts = [(len(delegated_calls(subject, network(subject, name)[2])), name) for name in NETWORKS]
    count, name = max(counts, key=lambda pair: pair[0])
    if not count:
        raise Skipped(f"it supports no operator of the networks of the suite ({', '.join(NETWORKS)})")
    return (name, *network(subject, name))


def recipe_programs(subject: BackendUnderTest) -> dict[str, Any]:
    """Compile the MLP and the convnet with each recipe of the backend. Return the programs by `RECIPE, NETWORK`.

    Omits a network in which the recipe quantizes nothing: some recipes leave small weights in floating point.
    """
    if "recipes" not in subject.cache:
        programs = {}
        recipes: Mapping[str, Any] = getattr(subject.compiler, "recipes", dict)()
        for recipe, details in recipes.items():
            for name in ("mlp", "convnet"):
                subject.trying(f"{name} with quantize={recipe!r}")
                model, inputs = NETWORKS[name]()
                samples = [inputs] if details.calibrates else None
                try:
                    program = compiled(subject, model, inputs, quantize=recipe, calibration=samples)
                except NothingToQuantize:
                    continue
                programs[f"{recipe}, {name}"] = program
        subject.cache["recipes"] = programs
    cached: dict[str, Any] = subject.cache["recipes"]
    return cached


def checks(subject: BackendUnderTest) -> Iterator[Check]:
    """Yield one check for each network, and one for each quantization recipe of the backend."""
    for name in NETWORKS:
        yield Check(f"networks/{name}", _Network(name), needs_run=True)
    for recipe in getattr(subject.compiler, "recipes", dict)():
        yield Check(f"networks/{recipe}", _Recipe(recipe), seconds=180, needs_run=True)


class _Network:
    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, subject: BackendUnderTest) -> str:
        subject.trying(self.name)
        model, inputs, program = network(subject, self.name)
        check_reasons(subject, program, self.name)
        claimed = {row.operator for row in subject.operators}
        calls = delegated_calls(subject, program)
        if unclaimed := sorted(set(calls) - claimed):
            raise Failed(f"it tags {', '.join(unclaimed)}, which operator_support() does not list")
        check_results(subject, self.name, outputs(load(subject, program).forward(*inputs)), eager(model, inputs))
        delegates = program.report().delegates.get(subject.backend_id, 0)
        return f"{len(calls)} of {len(program.report().rows)} operators delegated, in {delegates} delegates"


class _Recipe:
    """Check that the results of quantized networks are near the results of the float networks."""

    def __init__(self, recipe: str) -> None:
        self.recipe = recipe

    def __call__(self, subject: BackendUnderTest) -> str:
        errors = []
        for name, program in recipe_programs(subject).items():
            if not name.startswith(f"{self.recipe}, "):
                continue
            subject.trying(name)
            model, inputs = NETWORKS[name.rpartition(", ")[2]]()
            (want,), (got,) = eager(model, inputs), outputs(load(subject, program).forward(*inputs))
            if got.shape != want.shape or got.dtype != want.dtype:
                raise Failed(f"{name}: {got.dtype} {list(got.shape)} instead of {want.dtype} {list(want.shape)}")
            error = error_by_norm(got, want)
            if not error < MAX_ERROR:
                raise Failed(f"{name}: the results differ from those of the float network by {error:.0%}, by norm")
            if not delegated_calls(subject, program):
                raise Failed(f"{name}: the backend delegates nothing of the program that its own recipe quantized")
            errors.append(f"{name.rpartition(', ')[2]} {error:.1%}")
        if not errors:
            raise Skipped("the recipe quantizes nothing of these networks; the group recipes has larger ones")
        return f"errors by norm: {', '.join(errors)}"


MAX_ERROR = 0.25
"""Maximum of |quantized - float| / |float| (norms of network results): 4-bit weights cause 0.05, a wrong scale 1."""
