"""Compiling, running and comparing: what most checks do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

import edgecore
from edgecore.conformance.check import BackendUnderTest, Failed
from edgecore.ir.dtypes import dtype_name

TOLERANCES = {torch.float64: 1e-7, torch.float32: 1e-4, torch.float16: 5e-3, torch.bfloat16: 3e-2}
"""Greatest difference of two results, relative to the greatest value; other dtypes must be equal."""


class Call(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        """What the function gives."""
        return self.function(*args)


def compiled(subject: BackendUnderTest, model: Any, inputs: Any, **settings: Any) -> Any:
    """The model compiled with the backend; it is free to leave any of it."""
    return edgecore.compile(model, inputs, backends=[subject.backend], **settings)


def load(subject: BackendUnderTest, program: Any, **settings: Any) -> Any:
    """The program (or the bytes of a file) loaded with the load options under test."""
    data = program if isinstance(program, bytes) else program.buffer
    options = {subject.backend_id: dict(subject.load_options)} if subject.load_options else None
    return edgecore.load(data, options=options, trust=True, **settings)


def outputs(made: Any) -> list[torch.Tensor]:
    """One result or several, as a list."""
    return list(made) if isinstance(made, (tuple, list)) else [made]


def eager(model: Any, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """What torch makes of it."""
    with torch.no_grad():
        return outputs(model(*inputs))


def difference(subject: BackendUnderTest, got: torch.Tensor, want: torch.Tensor) -> str:
    """Where and how much `got` differs from `want`, empty if no more than it may."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"gives {dtype_name(got.dtype)}{list(got.shape)} instead of {dtype_name(want.dtype)}{list(want.shape)}"
    if got.numel() == 0:
        return ""
    if want.dtype not in TOLERANCES:
        wrong = got != want
        if not wrong.any():
            return ""
        place = _place(wrong)
        return f"{int(wrong.sum())} of {got.numel()} values differ, at {place} {got[place]} instead of {want[place]}"
    tolerance = TOLERANCES[want.dtype]
    if subject.tolerance is not None:
        tolerance = max(tolerance, subject.tolerance)
    one, two = got.double(), want.double()
    usual = two.isfinite()
    scale = float(two[usual].abs().max()) if usual.any() else 0.0
    same = (one == two) | (one.isnan() & two.isnan())
    wrong = ~same & ~((one - two).abs() <= tolerance * max(scale, 1e-6))
    if not wrong.any():
        return ""
    place = _place(wrong)
    return (
        f"{int(wrong.sum())} of {got.numel()} values differ by more than {tolerance:g} of the greatest, "
        f"at {place} {float(one[place]):.6g} instead of {float(two[place]):.6g}"
    )


def check_results(
    subject: BackendUnderTest, what: str, got: Sequence[torch.Tensor], want: Sequence[torch.Tensor]
) -> None:
    """Raise `Failed` if results differ."""
    if len(got) != len(want):
        raise Failed(f"{what}: {len(got)} results instead of {len(want)}")
    for index, (one, two) in enumerate(zip(got, want, strict=True)):
        if problem := difference(subject, one, two):
            raise Failed(f"{what}, result {index}: {problem}")


def delegated_calls(subject: BackendUnderTest, program: Any) -> list[str]:
    """Operators that the backend delegated_calls, once for each call."""
    return [row.operator for row in program.report().rows if row.where == subject.backend_id]


def delegated_dtypes(subject: BackendUnderTest, program: Any, operator: str) -> set[str]:
    """Dtypes that the calls of an operator which the backend delegated_calls read and give."""
    rows = [row for row in program.report().rows if row.where == subject.backend_id and row.operator == operator]
    return {dtype for row in rows for dtype in row.dtypes}


def undelegated_calls(subject: BackendUnderTest, program: Any) -> list[tuple[str, str]]:
    """(operator, the backend's reason) of each call that stayed outside; the reason is empty if it gave none."""
    found = []
    for row in program.report().left_outside:
        reasons = [reason for backend_id, reason in row.reasons if subject.backend_id in backend_id]
        found.append((row.operator, "; ".join(reasons)))
    return found


def check_reasons(subject: BackendUnderTest, program: Any, what: str) -> None:
    """Raise `Failed` for a call that the backend left without saying why."""
    silent = [operator for operator, reason in undelegated_calls(subject, program) if not reason.strip()]
    if silent:
        raise Failed(f"{what}: it leaves {silent[0]} outside without a reason (PartitionResult.unsupported_nodes)")


def _place(wrong: torch.Tensor) -> tuple[int, ...]:
    return tuple(int(index) for index in wrong.nonzero()[0])
