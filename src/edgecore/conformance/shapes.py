"""Symbolic sizes: the least, one between, the greatest, and back again, by one loaded model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

import edgecore
from edgecore.conformance.check import BackendUnderTest, Check, Failed, Skipped
from edgecore.conformance.networks import NETWORKS
from edgecore.conformance.operators import COMPANIONS
from edgecore.conformance.programs import check_reasons, check_results, compiled, eager, load, outputs, delegated_calls
from edgecore.conformance.samples import RANGES, resolve
from edgecore.errors import EdgecoreError

LEAST, MOST = 1, 9
ORDER = (LEAST, 4, MOST, 3, LEAST, MOST)

# Which dimension of the inputs varies.
VARIES = {"mlp": 0, "convnet": 0, "attention": 1, "elementwise": 0, "mixed": 0}


def checks(subject: BackendUnderTest) -> Iterator[Check]:
    """A row for each network, and one for the operators that the backend claims."""
    for name in NETWORKS:
        yield Check(f"shapes/{name}", _Network(name), needs_run=True)
    yield Check("shapes/operators", operators, seconds=120, needs_run=True)


class _Network:
    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, subject: BackendUnderTest) -> str:
        model, example = NETWORKS[self.name]()
        return _vary(subject, self.name, model, example, VARIES[self.name])


def operators(subject: BackendUnderTest) -> str:
    """The claimed operators of one or two tensors, [rows, 8], in one model."""
    found: list[tuple[Any, int]] = []
    for row in subject.compiler.operator_support():
        target = resolve(row.operator)
        name = row.operator.split(".")[1]
        if target is None or "float32" not in row.dtypes or name in RANGES:
            continue
        required = [
            str(arg.type) for arg in target._schema.arguments if not arg.has_default_value() and not arg.kwarg_only
        ]
        results = [str(result.type) for result in target._schema.returns]
        if required in (["Tensor"], ["Tensor", "Tensor"]) and results == ["Tensor"] and "copy" not in name:
            found.append((target, len(required)))
    found = [(target, count) for target, count in found if str(target) in COMPANIONS or _keeps_shape(target, count)]
    if not found:
        raise Skipped("it claims no operator that takes one or two tensors of any size")
    model = _Each(found).eval()
    example = (torch.linspace(-2, 2, 32).reshape(4, 8), torch.linspace(1, 3, 32).reshape(4, 8))
    return _vary(subject, "the model of all claimed elementwise operators", model, example, 0)


class _Each(torch.nn.Module):
    def __init__(self, targets: list[tuple[Any, int]]) -> None:
        super().__init__()
        self.targets = targets

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Each operator of the same inputs."""
        return tuple(target(x, y) if count == 2 else target(x) for target, count in self.targets)


def _keeps_shape(target: Any, count: int) -> bool:
    one = torch.ones(2, 3)
    try:
        made = target(*[one] * count)
    except (RuntimeError, NotImplementedError):
        return False
    return isinstance(made, torch.Tensor) and made.shape == one.shape and made.dtype == one.dtype


def _vary(
    subject: BackendUnderTest, name: str, model: torch.nn.Module, example: tuple[torch.Tensor, ...], dim: int
) -> str:
    subject.trying(name)
    example = tuple(_sized(tensor, dim, 4) for tensor in example)
    size = torch.export.Dim("size", min=LEAST, max=MOST)
    shapes = tuple({dim: size} for _ in example)
    program = compiled(subject, model, example, dynamic_shapes=shapes)
    check_reasons(subject, program, name)
    loaded = load(subject, program)
    for count in ORDER:
        subject.trying(f"{name}, size {count}")
        inputs = tuple(_sized(tensor, dim, count) for tensor in example)
        check_results(subject, f"{name}, size {count}", outputs(loaded.forward(*inputs)), eager(model, inputs))
    subject.trying(f"{name}, size {MOST + 1}")
    _refuse_larger(loaded, name, tuple(_sized(tensor, dim, MOST + 1) for tensor in example))
    inputs = tuple(_sized(tensor, dim, 4) for tensor in example)
    check_results(subject, f"{name} after a refused call", outputs(loaded.forward(*inputs)), eager(model, inputs))
    taken = delegated_calls(subject, program)
    return f"{len(taken)} of {len(program.report().rows)} operators taken; sizes {', '.join(map(str, ORDER))}"


def _refuse_larger(loaded: edgecore.Program, name: str, inputs: tuple[torch.Tensor, ...]) -> None:
    try:
        loaded.forward(*inputs)
    except (EdgecoreError, ValueError):
        return
    raise Failed(f"{name}, size {MOST + 1}: accepted, although the model was exported for at most {MOST}")


def _sized(tensor: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    """The tensor repeated or cut to this size; another size holds other values."""
    repeats = [1] * tensor.dim()
    repeats[dim] = -(-size // tensor.shape[dim])
    return (tensor.repeat(repeats).narrow(dim, 0, size) * (1 + size / 16)).contiguous()
