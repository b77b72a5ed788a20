"""Check symbolic sizes: run a loaded program with its minimum, its maximum and other sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

import edgecore
from edgecore.conformance.check import BackendUnderTest, Check, Failed, Skipped
from edgecore.conformance.checks.operators import COMPANIONS
from edgecore.conformance.programs import (
    as_supported,
    check_reasons,
    check_results,
    compiled,
    delegated_calls,
    eager,
    load,
    outputs,
)
from edgecore.conformance.samples.calls import RANGES, resolve
from edgecore.conformance.samples.network_models import NETWORKS
from edgecore.errors import EdgecoreError
from edgecore.ir.torch_compat import schema_of

MIN_SIZE, MAX_SIZE = 1, 9
ORDER = (MIN_SIZE, 4, MAX_SIZE, 3, MIN_SIZE, MAX_SIZE)

# Index of the dimension of the inputs that has a symbolic size, by the name of the network.
SYMBOLIC_DIM = {"mlp": 0, "convnet": 0, "attention": 1, "elementwise": 0, "mixed": 0}


def checks(subject: BackendUnderTest) -> Iterator[Check]:
    """Yield one check for each network, and one for the operators that the backend claims."""
    for name in NETWORKS:
        yield Check(f"shapes/{name}", _Network(name), needs_run=True)
    yield Check("shapes/operators", operators, seconds=120, needs_run=True)


class _Network:
    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, subject: BackendUnderTest) -> str:
        model, example = NETWORKS[self.name]()
        return _vary(subject, self.name, model, example, SYMBOLIC_DIM[self.name])


def operators(subject: BackendUnderTest) -> str:
    """Check one model of all claimed elementwise operators, with inputs [rows, 8] where `rows` is a symbolic size."""
    targets: list[tuple[Any, int]] = []
    for row in subject.operators:
        target = resolve(row.operator)
        name = row.operator.split(".")[1]
        if target is None or "float32" not in row.dtypes or name in RANGES:
            continue
        required = [
            str(arg.type) for arg in schema_of(target).arguments if not arg.has_default_value() and not arg.kwarg_only
        ]
        results = [str(result.type) for result in schema_of(target).returns]
        if required in (["Tensor"], ["Tensor", "Tensor"]) and results == ["Tensor"] and "copy" not in name:
            targets.append((target, len(required)))
    targets = [(target, count) for target, count in targets if str(target) in COMPANIONS or _keeps_shape(target, count)]
    if not targets:
        raise Skipped("it claims no operator whose arguments are one or two tensors of any size")
    model = _Each(targets).eval()
    example = (torch.linspace(-2, 2, 32).reshape(4, 8), torch.linspace(1, 3, 32).reshape(4, 8))
    return _vary(subject, "the model of all claimed elementwise operators", model, example, 0)


class _Each(torch.nn.Module):
    def __init__(self, targets: list[tuple[Any, int]]) -> None:
        super().__init__()
        self.targets = targets

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Apply each operator to `x`, or to `x` and `y` if it takes two tensors; return all results."""
        return tuple(target(x, y) if count == 2 else target(x) for target, count in self.targets)


def _keeps_shape(target: Any, count: int) -> bool:
    ones = torch.ones(2, 3)
    try:
        result = target(*[ones] * count)
    except (RuntimeError, NotImplementedError):
        return False
    return isinstance(result, torch.Tensor) and result.shape == ones.shape and result.dtype == ones.dtype


def _vary(
    subject: BackendUnderTest, name: str, model: torch.nn.Module, example: tuple[torch.Tensor, ...], dim: int
) -> str:
    subject.trying(name)
    example = tuple(_sized(tensor, dim, 4) for tensor in example)
    size = torch.export.Dim("size", min=MIN_SIZE, max=MAX_SIZE)
    shapes = tuple({dim: size} for _ in example)
    model = as_supported(subject, model, example, shapes)
    program = compiled(subject, model, example, dynamic_shapes=shapes)
    check_reasons(subject, program, name)
    loaded = load(subject, program)
    for count in ORDER:
        subject.trying(f"{name}, size {count}")
        inputs = tuple(_sized(tensor, dim, count) for tensor in example)
        check_results(subject, f"{name}, size {count}", outputs(loaded.forward(*inputs)), eager(model, inputs))
    subject.trying(f"{name}, size {MAX_SIZE + 1}")
    _expect_error(loaded, name, tuple(_sized(tensor, dim, MAX_SIZE + 1) for tensor in example))
    inputs = tuple(_sized(tensor, dim, 4) for tensor in example)
    check_results(subject, f"{name} after a rejected call", outputs(loaded.forward(*inputs)), eager(model, inputs))
    calls = delegated_calls(subject, program)
    return f"{len(calls)} of {len(program.report().rows)} operators delegated; sizes {', '.join(map(str, ORDER))}"


def _expect_error(loaded: edgecore.Program, name: str, inputs: tuple[torch.Tensor, ...]) -> None:
    try:
        loaded.forward(*inputs)
    except (EdgecoreError, ValueError):
        return
    raise Failed(f"{name}, size {MAX_SIZE + 1}: accepted, although the model was exported for at most {MAX_SIZE}")


def _sized(tensor: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    """Repeat or truncate `tensor` along `dim` to `size` elements, and scale it by a factor that depends on the size.

    Because of the factor, the check notices results that are left over from a run with another size.
    """
    repeats = [1] * tensor.dim()
    repeats[dim] = -(-size // tensor.shape[dim])
    return (tensor.repeat(repeats).narrow(dim, 0, size) * (1 + size / 16)).contiguous()
