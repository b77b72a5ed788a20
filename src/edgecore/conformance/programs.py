"""Functions that most checks use: compile, run and compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

import edgecore
from edgecore.conformance.check import BackendUnderTest, Failed
from edgecore.ir.dtypes import dtype_name

TOLERANCES = {torch.float64: 1e-7, torch.float32: 1e-4, torch.float16: 5e-3, torch.bfloat16: 3e-2}
"""Maximum difference of two results, relative to the largest value. Results of other dtypes must be equal."""


def compiled(subject: BackendUnderTest, model: Any, inputs: Any, **settings: Any) -> Any:
    """Compile a model with the backend, which need not support all operators."""
    return edgecore.compile(model, inputs, backends=[subject.backend], **settings)


def load(subject: BackendUnderTest, program: Any, **settings: Any) -> Any:
    """Load a compiled program, or the bytes of a file, with the load options under test.

    A program in which the backend has no delegate takes no options for it.
    """
    if isinstance(program, bytes):
        return edgecore.load(program, options=subject.options_of_load, trust=True, **settings)
    options = subject.options_of_load if subject.backend_id in program.report().delegates else None
    return edgecore.load(program.buffer, options=options, trust=True, **settings)


def outputs(result: Any) -> list[torch.Tensor]:
    """Convert the result of a call, one tensor or several, to a list."""
    return list(result) if isinstance(result, (tuple, list)) else [result]


def eager(model: Any, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Run a model in eager PyTorch, and return its results as a list."""
    with torch.no_grad():
        return outputs(model(*inputs))


def difference(subject: BackendUnderTest, got: torch.Tensor, want: torch.Tensor) -> str:
    """Compare a result with the expected one.

    Args:
        subject: The backend under test; its `tolerance` replaces a smaller default.
        got: The result.
        want: The expected result.

    Returns:
        A sentence that says where and by how much the results differ; empty if they agree.
    """
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"is {dtype_name(got.dtype)}{list(got.shape)} instead of {dtype_name(want.dtype)}{list(want.shape)}"
    if got.numel() == 0:
        return ""
    if want.dtype not in TOLERANCES:
        wrong = got != want
        if not wrong.any():
            return ""
        index = _first(wrong)
        return f"{int(wrong.sum())} of {got.numel()} values differ, at {index} {got[index]} instead of {want[index]}"
    tolerance = TOLERANCES[want.dtype]
    if subject.tolerance is not None:
        tolerance = max(tolerance, subject.tolerance)
    actual, expected = got.double(), want.double()
    finite = expected.isfinite()
    scale = float(expected[finite].abs().max()) if finite.any() else 0.0
    same = (actual == expected) | (actual.isnan() & expected.isnan())  # also equal infinities, whose difference is NaN
    wrong = ~same & ~((actual - expected).abs() <= tolerance * max(scale, 1e-6))
    if not wrong.any():
        return ""
    index = _first(wrong)
    return (
        f"{int(wrong.sum())} of {got.numel()} values differ by more than {tolerance:g} of the largest, "
        f"at {index} {float(actual[index]):.6g} instead of {float(expected[index]):.6g}"
    )


def error_by_norm(got: torch.Tensor, want: torch.Tensor) -> float:
    """Return the norm of the difference of two results, relative to the norm of the expected one."""
    return float((got.double() - want.double()).norm() / want.double().norm())


def check_results(
    subject: BackendUnderTest, description: str, got: Sequence[torch.Tensor], want: Sequence[torch.Tensor]
) -> None:
    """Raise `Failed` if the results `got` differ from the expected results `want`."""
    if len(got) != len(want):
        raise Failed(f"{description}: {len(got)} results instead of {len(want)}")
    for index, (actual, expected) in enumerate(zip(got, want, strict=True)):
        if problem := difference(subject, actual, expected):
            raise Failed(f"{description}, result {index}: {problem}")


def delegated_calls(subject: BackendUnderTest, program: Any) -> list[str]:
    """List the operators of all calls that run in a delegate of the backend, one entry for each call."""
    return [row.operator for row in program.report().rows if row.where == subject.backend_id]


def delegated_dtypes(subject: BackendUnderTest, program: Any, operator: str) -> set[str]:
    """Return the dtypes of the inputs and outputs of all delegated calls of an operator."""
    rows = [row for row in program.report().rows if row.where == subject.backend_id and row.operator == operator]
    return {dtype for row in rows for dtype in row.dtypes}


def undelegated_calls(subject: BackendUnderTest, program: Any) -> list[tuple[str, str]]:
    """Return (operator, the backend's reason) of each call that is not delegated; the reason is empty if there is none."""
    calls = []
    for row in program.report().left_outside:
        reasons = [text for asked, text in row.reasons if subject.backend_id in asked or asked == "edgecore"]
        calls.append((row.operator, "; ".join(reasons)))
    return calls


def check_reasons(subject: BackendUnderTest, program: Any, description: str) -> None:
    """Raise `Failed` if a call is not delegated and the backend gave no reason."""
    unexplained = [operator for operator, reason in undelegated_calls(subject, program) if not reason.strip()]
    if unexplained:
        raise Failed(
            f"{description}: {unexplained[0]} is not delegated, without a reason in PartitionResult.unsupported_nodes"
        )


def _first(wrong: torch.Tensor) -> tuple[int, ...]:
    """Return the index of the first true element."""
    return tuple(int(index) for index in wrong.nonzero()[0])
