"""Check small networks, of which the backend compiles all or some nodes, in float and with its quantization recipes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
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
    outputs,
)

Inputs = tuple[torch.Tensor, ...]


def mlp() -> tuple[nn.Module, Inputs]:
    """Make two linear layers with an activation. Input: [batch, 16]."""
    return _seeded(lambda: nn.Sequential(nn.Linear(16, 33), nn.ReLU(), nn.Linear(33, 7))), (_random(4, 16),)


def convnet() -> tuple[nn.Module, Inputs]:
    """Make convolutions, batch norm, pooling, a residual connection and a classifier. Input: [batch, 3, 32, 32]."""
    return _seeded(_ConvNet), (_random(2, 3, 32, 32),)


def attention() -> tuple[nn.Module, Inputs]:
    """Make a transformer block. Input: [batch, length, 32]."""
    return _seeded(_Attention), (_random(2, 5, 32),)


def elementwise() -> tuple[nn.Module, Inputs]:
    """Make additions, products and activations, some of which most backends support. Two inputs: [rows, 8]."""
    return _seeded(_Elementwise), (_random(3, 8), _random(3, 8))


def mixed() -> tuple[nn.Module, Inputs]:
    """Make sums and products, with cumsum and erf between them. Two inputs: [rows, 8].

    Few backends support cumsum and erf, so the nodes before and after them become separate delegates.
    """
    return _seeded(_Mixed), (_random(3, 8), _random(3, 8))


NETWORKS = {"mlp": mlp, "convnet": convnet, "attention": attention, "elementwise": elementwise, "mixed": mixed}


def network(subject: BackendUnderTest, name: str) -> tuple[nn.Module, Inputs, Any]:
    """Return a network, its inputs, and the program compiled with the backend; compiled once per process."""
    if name not in subject.cache:
        subject.trying(f"compiling {name}")
        model, inputs = NETWORKS[name]()
        subject.cache[name] = (model, inputs, compiled(subject, model, inputs))
    cached: tuple[nn.Module, Inputs, Any] = subject.cache[name]
    return cached


def delegated(subject: BackendUnderTest) -> tuple[str, nn.Module, Inputs, Any]:
    """Return the network with the most delegated operator calls: its name, module, inputs and compiled program."""
    counts = [(len(delegated_calls(subject, network(subject, name)[2])), name) for name in NETWORKS]
    count, name = max(counts, key=lambda pair: pair[0])
    if not count:
        raise Skipped(f"it supports no operator of the networks of the suite ({', '.join(NETWORKS)})")
    return (name, *network(subject, name))


def recipe_programs(subject: BackendUnderTest) -> dict[str, Any]:
    """Compile the MLP and the convnet with each recipe of the backend. Return the programs by `RECIPE, NETWORK`."""
    if "recipes" not in subject.cache:
        programs = {}
        recipes: Mapping[str, Any] = getattr(subject.compiler, "recipes", dict)()
        for recipe, details in recipes.items():
            for name in ("mlp", "convnet"):
                subject.trying(f"{name} with quantize={recipe!r}")
                model, inputs = NETWORKS[name]()
                samples = [inputs] if details.calibrates else None
                programs[f"{recipe}, {name}"] = compiled(subject, model, inputs, quantize=recipe, calibration=samples)
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
        claimed = {row.operator for row in subject.compiler.operator_support()}
        calls = delegated_calls(subject, program)
        if unclaimed := sorted(set(calls) - claimed):
            raise Failed(f"it tags {', '.join(unclaimed)}, which operator_support() does not list")
        check_results(subject, self.name, outputs(load(subject, program).forward(*inputs)), eager(model, inputs))
        delegates = program.report().delegates.get(subject.backend_id, 0)
        return f"{len(calls)} of {len(program.report().rows)} operators delegated, in {delegates} delegates"


class _Recipe:
    """Check that the results of a quantized network are near those of the float network."""

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
        return f"errors by norm: {', '.join(errors)}"


MAX_ERROR = 0.25
"""Maximum relative error (by norm) of a quantized network. 4-bit weights cause a few percent, a wrong scale 100 %."""


def _seeded(make: Any) -> nn.Module:
    torch.manual_seed(0)
    module: nn.Module = make().eval().requires_grad_(False)
    return module


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


class _ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.inner = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.Hardswish(), nn.Conv2d(8, 8, 1))
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        x = nn.functional.max_pool2d(x + self.inner(x), 2)
        probabilities: torch.Tensor = torch.softmax(self.head(x.mean((2, 3))), -1)
        return probabilities


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(32), nn.LayerNorm(32)
        self.query, self.key, self.value, self.out = (nn.Linear(32, 32) for _ in range(4))
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        normal = self.first(x)
        q, k, v = (
            layer(normal).view(batch, length, 4, 8).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        result: torch.Tensor = x + self.down(nn.functional.gelu(self.up(self.second(x))))
        return result


class _Elementwise(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total = x + y
        return torch.relu(total * x), torch.sigmoid(total) - y.abs()


class _Mixed(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        total = torch.cumsum(x * y + x, 1)
        return torch.relu(total + torch.erf(y)) * x
