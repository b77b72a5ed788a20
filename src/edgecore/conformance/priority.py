"""Beside others: another backend before and after it, and our kernels between two of its partitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

import edgecore
from edgecore.conformance.check import BackendUnderTest, Check, Failed, Skipped
from edgecore.conformance.networks import delegated
from edgecore.conformance.programs import check_results, compiled, eager, outputs, took
from edgecore.conformance.samples import resolve
from edgecore.errors import EdgecoreError
from edgecore.plugin import isolated_import

FOREIGN = ("aten.erf.default", "aten.atan.default", "aten.sinh.default", "aten.expm1.default")
"""Operators to put between two partitions; one that the backend does not claim."""


def checks(subject: BackendUnderTest) -> Iterator[Check]:
    """A row for our kernels, one for each other backend that is installed and works."""
    yield Check("priority/kernels between two partitions", between, needs_run=True)
    for other in _others(subject):
        yield Check(f"priority/with {other}", _With(other), needs_run=True)


def between(subject: BackendUnderTest) -> str:
    """Tensors go from a delegate to a kernel and to a delegate again."""
    claimed = {row.operator for row in subject.compiler.operator_support()}
    foreign = next((name for name in FOREIGN if name not in claimed), None)
    if foreign is None:
        raise Skipped("it claims every operator that the suite would put between")
    name, model, inputs, _ = delegated(subject)
    whole = _Twice(model, foreign).eval()
    program = compiled(subject, whole, inputs)
    if foreign in took(subject, program):
        raise Failed(f"it takes {foreign}, which operator_support() does not list")
    got = outputs(edgecore.load(program.buffer, trust=True).forward(*inputs))
    check_results(subject, f"{name}, {foreign}, {name}", got, eager(whole, inputs))
    return f"{program.report().delegates.get(subject.backend_id, 0)} delegates around {foreign}"


class _With:
    def __init__(self, other: str) -> None:
        self.other = other

    def __call__(self, subject: BackendUnderTest) -> str:
        name, model, inputs, alone = delegated(subject)
        try:
            edgecore.load(edgecore.compile(model, inputs, backends=[self.other]).buffer, trust=True).forward(*inputs)
        except EdgecoreError as error:
            raise Skipped(f"{self.other} does not work by itself: {error}") from error
        counts = []
        for first in (subject.name, self.other):
            subject.trying(f"{name}, {first} first")
            order = [subject.backend, edgecore.Backend(self.other)]
            program = edgecore.compile(model, inputs, backends=order if first == subject.name else order[::-1])
            got = outputs(edgecore.load(program.buffer, trust=True).forward(*inputs))
            check_results(subject, f"{name}, {first} first", got, eager(model, inputs))
            counts.append(len(took(subject, program)))
            if first == subject.name and counts[0] != len(took(subject, alone)):
                raise Failed(
                    f"{name}: it takes {len(took(subject, alone))} operators alone and {counts[0]} before {first}"
                )
        return f"{name}: takes {counts[0]} operators before it, {counts[1]} after it"


class _Twice(torch.nn.Module):
    """A network, an operator, and the network again."""

    def __init__(self, model: torch.nn.Module, between: str) -> None:
        super().__init__()
        self.model = model
        self.between: Any = resolve(between)

    def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """Results of the first run, and of a run on inputs that depend on them."""
        first = outputs(self.model(*inputs))
        total = torch.cat([one.flatten() for one in first])
        moved = self.between(total)
        second = outputs(self.model(*(one + moved.mean() * 0.1 for one in inputs)))
        return [*first, *second]


def _others(subject: BackendUnderTest) -> list[str]:
    others = [
        one for one in isolated_import.installed()[0] if one.state == "ok" and one.info and one.info.native_library
    ]
    return [one.name for one in others if one.backend_id != subject.backend_id and not one.ambiguous]
