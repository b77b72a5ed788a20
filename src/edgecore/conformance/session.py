"""Runs the suite: one worker process at a time, and another one for the rest when it dies or hangs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from typing import Any

from edgecore.conformance.report import Report, Row


def run(
    name: str,
    *,
    options: Mapping[str, Any] | None = None,
    load_options: Mapping[str, Any] | None = None,
    only: str = "",
    quick: bool = False,
    tolerance: float | None = None,
) -> Report:
    """Check an installed backend.

    Args:
        name: As users write it: the backend's name, its backend_id or its distribution.
        options: Of the backend for compiling, as in `Backend("acme", soc="A1")`.
        load_options: Of the backend for loading, as in `edgecore.load(..., options={"acme": {...}})`.
        only: Run the checks whose name holds this text or matches this pattern (`operators/*`).
        quick: Fewer sizes and repetitions.
        tolerance: Greatest difference from eager of floating-point results, relative to the greatest value; for a
            backend that computes in less precision than its inputs have. By default by dtype (float32 1e-4).

    Raises:
        BackendNotFound: No installed backend is called `name`.
    """
    from edgecore.plugin.registry import select

    select(name)
    settings = _settings(name, options, load_options, quick, tolerance)
    return Report(name, list(rows(settings, [only] if only else ["*"])))


def list_checks(name: str, *, options: Mapping[str, Any] | None = None, quick: bool = False) -> list[str]:
    """Names of all checks for an installed backend, in their order."""
    raise NotImplementedError


def rows(settings: Mapping[str, Any], patterns: Sequence[str]) -> Iterator[Row]:
    """The rows of all checks that one of `patterns` names, as they are done."""
    raise NotImplementedError


def _settings(
    name: str,
    options: Mapping[str, Any] | None,
    load_options: Mapping[str, Any] | None,
    quick: bool,
    tolerance: float | None,
) -> dict[str, Any]:
    return {
        "name": name,
        "options": dict(options or {}),
        "load_options": dict(load_options or {}),
        "quick": quick,
        "tolerance": tolerance,
    }


def chosen(check: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern names the check."""
    return any(pattern in check or fnmatch(check, pattern) for pattern in patterns)
