"""Small networks, whole or partly taken, and those of the backend's own quantization recipes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from edgecore.conformance.check import BackendUnderTest, Check, Failed, Skipped
from edgecore.conformance.programs import check_reasons, check_results, compiled, eager, load, outputs, took

Inputs = tuple[torch.Tensor, ...]


def mlp() -> tuple[nn.Module, Inputs]:
    """Two linear layers with an activation, [batch, 16]."""
    return _seeded(lambda: nn.Sequential(nn.Linear(16, 33), nn.ReLU(), nn.Linear(33, 7))), (_random(4, 16),)


def convnet() -> tuple[nn.Module, Inputs]:
    """Convolutions, batch norm, pooling, a residual connection, a classifier; [batch, 3, 32, 32]."""
    return _seeded(_ConvNet), (_random(2, 3, 32, 32),)


def attention() -> tuple[nn.Module, Inputs]:
    """A transformer block, [batch, length, 32]."""
    return _seeded(_Attention), (_random(2, 5, 32),)


def elementwise() -> tuple[nn.Module, Inputs]:
    """Sums, products and activations, which most backends take some of; two inputs [rows, 8]."""
    return _seeded(_Elementwise), (_random(3, 8), _random(3, 8))


def mixed() -> tuple[nn.Module, Inputs]:
    """Sums around a running total and an error function, which hardly any backend takes; two inputs [rows, 8]."""
    return _seeded(_Mixed), (_random(3, 8), _random(3, 8))


NETWORKS = {"mlp": mlp, "convnet": convnet, "attention": attention, "elementwise": elementwise, "mixed": mixed}


def network(subject: BackendUnderTest, name: str) -> tuple[nn.Module, Inputs, Any]:
    """A network, its inputs, and the program that the backend made of it; compiled once a process."""
    if name not in subject.cache:
        subject.trying(f"compiling {name}")
        model, inputs = NETWORKS[name]()
        subject.cache[name] = (model, inputs, compiled(subject, model, inputs))
    found: tuple[nn.Module, Inputs, Any] = subject.cache[name]
    return found


def delegated(subject: BackendUnderTest) -> tuple[str, nn.Module, Inputs, Any]:
    """A network of which the backend takes something, its name first. The one of which it takes most."""
    found = [(len(took(subject, network(subject, name)[2])), name) for name in NETWORKS]
    most, name = max(found, key=lambda pair: pair[0])
    if not most:
        raise Skipped(f"it takes nothing of the networks of the suite ({', '.join(NETWORKS)})")
    return (name, *network(subject, name))


def recipe_programs(subject: BackendUnderTest) -> dict[str, Any]:
    """The MLP and the convnet, quantized by each recipe of the backend: program by `recipe, network`."""
    if "recipes" not in subject.cache:
        programs = {}
        recipes: Mapping[str, Any] = getattr(subject.compiler, "recipes", dict)()
        for recipe, details in recipes.items():
            for name in ("mlp", "convnet"):
                subject.trying(f"{name} with quantize={recipe!r}")
                model, inputs = NETWORKS[name]()
                samples = [inputs] if getattr(details, "calibrates", False) else None
                programs[f"{recipe}, {name}"] = compiled(subject, model, inputs, quantize=recipe, calibration=samples)
        subject.cache["recipes"] = programs
    found: dict[str, Any] = subject.cache["recipes"]
    return found


def checks(subject: BackendUnderTest) -> Iterator[Check]:
    """One check a network, and one a recipe."""
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
        taken = took(subject, program)
        if unclaimed := sorted(set(taken) - claimed):
            raise Failed(f"it takes {', '.join(unclaimed)}, which operator_support() does not list")
        check_results(subject, self.name, outputs(load(subject, program).forward(*inputs)), eager(model, inputs))
        delegates = program.report().delegates.get(subject.backend_id, 0)
        return f"{len(taken)} of {len(program.report().rows)} operators taken, in {delegates} delegates"


class _Recipe:
    """Quantized results are near the float network's, and exactly as far as those of the same program elsewhere."""

    def __init__(self, recipe: str) -> None:
        self.recipe = recipe

    def __call__(self, subject: BackendUnderTest) -> str:
        lost = []
        for name, program in recipe_programs(subject).items():
            if not name.startswith(f"{self.recipe}, "):
                continue
            subject.trying(name)
            model, inputs = NETWORKS[name.rpartition(", ")[2]]()
            (want,), (got,) = eager(model, inputs), outputs(load(subject, program).forward(*inputs))
            if got.shape != want.shape or got.dtype != want.dtype:
                raise Failed(f"{name}: {got.dtype} {list(got.shape)} instead of {want.dtype} {list(want.shape)}")
            error = float((got.double() - want.double()).norm() / want.double().norm())
            if not error < QUANTIZED:
                raise Failed(f"{name}: results are off by {error:.0%} of the float network's, by norm")
            if not took(subject, program):
                raise Failed(f"{name}: the backend takes nothing of what its own recipe made")
            lost.append(f"{name.rpartition(', ')[2]} {error:.1%}")
        return f"off by {', '.join(lost)} by norm"


QUANTIZED = 0.25
"""Greatest error of a quantized network by norm: of 4-bit weights a few percent, of a wrong scale 100 %."""


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
        made: torch.Tensor = x + self.down(nn.functional.gelu(self.up(self.second(x))))
        return made


class _Elementwise(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total = x + y
        return torch.relu(total * x), torch.sigmoid(total) - y.abs()


class _Mixed(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        total = torch.cumsum(x * y + x, 1)
        return torch.relu(total + torch.erf(y)) * x
