"""Check programs of two backends, in both orders of priority, and programs with a CPU kernel between two delegates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

import edgecore
from edgecore.conformance.check import BackendUnderTest, Check, Failed, Skipped
from edgecore.conformance.checks.networks import delegated
from edgecore.conformance.programs import check_results, compiled, delegated_calls, eager, load, outputs
from edgecore.conformance.samples.calls import resolve
from edgecore.conformance.workers.runner import Died
from edgecore.errors import EdgecoreError
from edgecore.plugin.diagnosis import isolated_import

FOREIGN = (
    "aten.erf.default",
    "aten.atan.default",
    "aten.sinh.default",
    "aten.expm1.default",
    "aten.nan_to_num.default",
)
"""Candidates for the operator between the two partitions of the test model; the first that the backend does not claim
is used."""


def checks(subject: BackendUnderTest) -> Iterator[Check]:
    """Yield a check with a kernel between two partitions, and a check with each other installed backend that works."""
    yield Check("priority/kernels between two partitions", between, needs_run=True)
    for other in _others(subject):
        yield Check(f"priority/with {other}", _With(other), needs_run=True)


def between(subject: BackendUnderTest) -> str:
    """Check that tensors pass correctly from a delegate to a kernel, and from the kernel to another delegate."""
    claimed = {row.operator for row in subject.operators}
    foreign = next((name for name in FOREIGN if name not in claimed), None)
    if foreign is None:
        raise Skipped(f"it claims all of {', '.join(FOREIGN)}, so none of them can separate two partitions")
    name, model, inputs, _ = delegated(subject)
    twice = _Twice(model, foreign)
    program = compiled(subject, twice, inputs)
    if foreign in delegated_calls(subject, program):
        raise Failed(f"it tags {foreign}, which operator_support() does not list")
    got = outputs(load(subject, program).forward(*inputs))
    check_results(subject, f"{name}, {foreign}, {name}", got, eager(twice, inputs))
    return f"{program.report().delegates.get(subject.backend_id, 0)} delegates around {foreign}"


class _With:
    def __init__(self, other: str) -> None:
        self.other = other

    def __call__(self, subject: BackendUnderTest) -> str:
        name, model, inputs, alone = delegated(subject)
        try:
            by_other = load(subject, edgecore.compile(model, inputs, backends=[self.other]))
            check_results(subject, name, outputs(by_other.forward(*inputs)), eager(model, inputs))
        except Died:
            raise
        except (EdgecoreError, Failed) as error:
            raise Skipped(f"{self.other} does not work by itself: {error}") from error
        counts = []
        for first in (subject.name, self.other):
            subject.trying(f"{name}, {first} first")
            order = [subject.backend, edgecore.Backend(self.other)]
            program = edgecore.compile(model, inputs, backends=order if first == subject.name else order[::-1])
            got = outputs(load(subject, program).forward(*inputs))
            check_results(subject, f"{name}, {first} first", got, eager(model, inputs))
            counts.append(len(delegated_calls(subject, program)))
            if first == subject.name and counts[0] != len(delegated_calls(subject, alone)):
                raise Failed(
                    f"{name}: it gets {len(delegated_calls(subject, alone))} operators alone, but {counts[0]} as the "
                    f"first of two backends, the other one being {self.other}"
                )
        return f"{name}: {counts[0]} operators delegated before {self.other}, {counts[1]} after it"


class _Twice(torch.nn.Module):
    """A model that runs a network, an operator that the backend does not support, and the network again."""

    def __init__(self, model: torch.nn.Module, between: str) -> None:
        super().__init__()
        self.model = model
        self.between: Any = resolve(between)
        self.training = False  # do not call eval(): it raises for an exported (quantized) module

    def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """Run the network on `inputs`, then on inputs that `between` computes from the results; return all results."""
        first = outputs(self.model(*inputs))
        joined = torch.cat([result.flatten() for result in first])
        changed = self.between(joined)
        second = outputs(self.model(*(tensor + changed.mean() * 0.1 for tensor in inputs)))
        return [*first, *second]


def _others(subject: BackendUnderTest) -> list[str]:
    others = [
        backend
        for backend in isolated_import.installed()[0]
        if backend.state == "ok" and backend.info and backend.info.native_library
    ]
    return [other.name for other in others if other.backend_id != subject.backend_id and not other.ambiguous]
