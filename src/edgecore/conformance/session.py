"""Runs the suite: one worker process at a time, and another one for the rest when it dies or hangs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from typing import Any

from edgecore.conformance.process import Event, call
from edgecore.conformance.report import Report, Row

START_SECONDS = 120
"""How long importing the package and listing its checks may take."""


def run(
    name: str,
    *,
    options: Mapping[str, Any] | None = None,
    load_options: Mapping[str, Any] | None = None,
    only: str | Sequence[str] = (),
    quick: bool = False,
    tolerance: float | None = None,
    seconds: float | None = None,
    on_row: Callable[[Row], None] | None = None,
) -> Report:
    """Check an installed backend.

    Args:
        name: As users write it: the backend's name, its backend_id or its distribution.
        options: Of the backend for compiling, as in `Backend("acme", soc="A1")`.
        load_options: Of the backend for loading, as in `edgecore.load(..., options={"acme": {...}})`.
        only: Run the checks whose name holds this text, or one of these, or matches it as a pattern (`operators/*`).
        quick: Fewer sizes and repetitions.
        tolerance: Greatest difference from eager of floating-point results, relative to the greatest value; for a
            backend that computes in less precision than its inputs have. By default by dtype (float32 1e-4).
        seconds: How long a check may be silent before it counts as hanging, in place of its own time.
        on_row: Called with each row as soon as it is there.

    Raises:
        BackendNotFound: No installed backend is called `name`.
    """
    _find(name)
    settings = make_settings(
        name, options=options, load_options=load_options, quick=quick, tolerance=tolerance, seconds=seconds
    )
    report = Report(name)
    for row in rows(settings, [only] if isinstance(only, str) else list(only) or ["*"]):
        report.rows.append(row)
        if on_row is not None:
            on_row(row)
    return report


def list_checks(name: str, *, options: Mapping[str, Any] | None = None, quick: bool = False) -> list[str]:
    """Names of all checks for an installed backend, in their order.

    Raises:
        BackendNotFound: No installed backend is called `name`.
        BackendBroken: The package, or its compiler, does not import.
    """
    from edgecore.errors import BackendBroken

    _find(name)
    settings = make_settings(name, options=options, quick=quick)
    for kind, value in _work(settings, ["*"], [], list_only=True):
        if kind == "checks":
            return list(value)
        if kind == "died":
            raise BackendBroken(f"the checks for backend {name!r} cannot be listed: the process {value}")
    return []


def _find(name: str) -> None:
    """Raise BackendNotFound for a name of none; packages are imported elsewhere first, so that none hangs the suite."""
    from edgecore.plugin import isolated_import, registry

    registry.select(name, isolated_import.installed()[0])


def rows(settings: Mapping[str, Any], patterns: Sequence[str], *, exactly: bool = False) -> Iterator[Row]:
    """The rows of all checks that one of `patterns` names, as they are done. `exactly`: the patterns are whole names."""
    done: list[str] = []
    chosen_checks: list[str] | None = None
    retry = ""
    while chosen_checks is None or len(done) < len(chosen_checks):
        current, last, begun = "", "", time.monotonic()
        died = ""
        for kind, value in _work(settings, patterns, done, retry=retry, exactly=exactly):
            if kind == "checks":
                chosen_checks = value
            elif kind == "begin":
                current, last, begun = value, "", time.monotonic()
            elif kind == "input":
                last = value
            elif kind == "row":
                yield Row(*value)
                done.append(value[0])
                current = ""
            elif kind == "died":
                died = value
        if not died:
            return
        if not current:
            # It died while the package was imported, asked what it supports, or between two checks.
            yield Row("installation/start", "installation", "failed", f"the process {died}", 0.0)
            return
        if retry == current or not _tries_many(current):
            where = f"{last}: the process {died}" if last else f"the process {died}"
            yield Row(current, current.partition("/")[0], "failed", where, round(time.monotonic() - begun, 3))
            done.append(current)
            retry = ""
        else:
            retry = current


def _tries_many(check: str) -> bool:
    """Whether a check gives its inputs together at first: after a death it is run again, one by one."""
    return check.startswith("operators/")


def _work(
    settings: Mapping[str, Any],
    patterns: Sequence[str],
    done: Sequence[str],
    *,
    retry: str = "",
    list_only: bool = False,
    exactly: bool = False,
) -> Iterator[Event]:
    arguments = {
        "settings": dict(settings),
        "patterns": list(patterns),
        "done": list(done),
        "retry": retry,
        "list_only": list_only,
        "exactly": exactly,
    }
    return call("edgecore.conformance.worker:main", arguments, seconds=START_SECONDS, prepared=True)


def make_settings(
    name: str,
    *,
    options: Mapping[str, Any] | None = None,
    load_options: Mapping[str, Any] | None = None,
    quick: bool = False,
    tolerance: float | None = None,
    seconds: float | None = None,
) -> dict[str, Any]:
    """What the worker needs to know; see `run`."""
    return {
        "name": name,
        "options": dict(options or {}),
        "load_options": dict(load_options or {}),
        "quick": quick,
        "tolerance": tolerance,
        "seconds": seconds,
    }


def chosen(check: str, patterns: Sequence[str], exactly: bool) -> bool:
    """Whether a pattern names the check."""
    return check in patterns if exactly else any(pattern in check or fnmatch(check, pattern) for pattern in patterns)
