"""Run the suite in a worker process. If the worker crashes or hangs, a new worker runs the remaining checks."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from typing import Any

from edgecore.conformance.report import Report, Row
from edgecore.conformance.workers.process import Event, call
from edgecore.conformance.workers.runner import check_start
from edgecore.errors import EdgecoreError
from edgecore.progress import Task, task

START_SECONDS = 120
"""Time limit for importing the package and listing the checks."""


def run(
    name: str,
    *,
    options: Mapping[str, Any] | None = None,
    load_options: Mapping[str, Any] | None = None,
    only: str | Sequence[str] = (),
    quick: bool = False,
    tolerance: float | None = None,
    seconds: float | None = None,
    runner: str | Sequence[str] | None = None,
    on_row: Callable[[Row], None] | None = None,
) -> Report:
    """Check an installed backend.

    Args:
        name: Name of the backend, its backend id or its distribution.
        options: Options of the backend for compiling, as in `Backend("acme", soc="A1")`.
        load_options: Options of the backend for loading, as in `edgecore.load(..., options={"acme": {...}})`.
        only: Run only checks whose name contains this text (or one of these texts), or matches it as a pattern such as
            `operators/*`.
        quick: Use fewer sizes and repetitions.
        tolerance: Maximum difference of floating-point results from eager PyTorch, relative to the largest value, for a
            backend that computes in lower precision than the inputs have. The default depends on the dtype in which the
            backend computes: 1e-4 for float32, 5e-3 for float16.
        seconds: Time limit without progress after which any check counts as hanging; by default each check has its own.
        runner: Command that starts an `edgecore-run` on another processor or device, with arguments that name the
            backend's library there, such as `"qemu-aarch64 -L /usr/aarch64-linux-gnu /build/edgecore-run --backend
            /build/libedgecore_acme.so"`. The command runs the compiled files in place of the runtime in this process.
            Checks that need functions that `edgecore-run` lacks are skipped.
        on_row: Called with the result of each check as soon as the check has ended.

    Returns:
        The results of all checks.

    Raises:
        BackendNotFound: No installed backend is called `name`.
        EdgecoreError: `runner` does not start an `edgecore-run`.

    Example:
        >>> report = edgecore.conformance.run("xnnpack", only="operators/", quick=True)
        >>> report.ok
        True
    """
    _find(name)
    try:
        command = shlex.split(runner) if isinstance(runner, str) else list(runner or ())
    except ValueError as error:
        raise EdgecoreError(f"runner: {runner!r} is no command: {error}") from None
    if runner is not None:
        if not command:
            raise EdgecoreError("runner: the command is empty")
        check_start(command, seconds or START_SECONDS)
    settings = make_settings(
        name,
        options=options,
        load_options=load_options,
        quick=quick,
        tolerance=tolerance,
        seconds=seconds,
        runner=command,
    )
    report = Report(name)
    for row in rows(settings, [only] if isinstance(only, str) else list(only) or ["*"]):
        report.rows.append(row)
        if on_row is not None:
            on_row(row)
    return report


def list_checks(name: str, *, options: Mapping[str, Any] | None = None, quick: bool = False) -> list[str]:
    """List the names of all checks for an installed backend, in their order.

    Args:
        name: As for `run`.
        options: As for `run`.
        quick: As for `run`.

    Raises:
        BackendNotFound: No installed backend is called `name`.
        BackendBroken: The package or its compiler cannot be imported.
    """
    from edgecore.errors import BackendBroken

    _find(name)
    settings = make_settings(name, options=options, quick=quick)
    checks: list[str] = []
    for kind, value in _worker_events(settings, ["*"], [], list_only=True):
        if kind == "checks":
            checks = value
        elif kind == "died":
            raise BackendBroken(f"the checks for backend {name!r} cannot be listed: the process {value}")
    return checks


def _find(name: str) -> None:
    """Raise `BackendNotFound` if no backend has this name. Packages are imported in a child first, as they may hang."""
    from edgecore.plugin import registry
    from edgecore.plugin.diagnosis import isolated_import

    registry.select(name, isolated_import.installed()[0])


def rows(settings: Mapping[str, Any], patterns: Sequence[str], *, exactly: bool = False) -> Iterator[Row]:
    """Run all checks that a pattern selects, and yield the result of each check as soon as it has ended.

    Args:
        settings: Result of `make_settings`.
        patterns: Parts of names, or patterns such as `operators/*`.
        exactly: True if `patterns` are complete names.
    """
    with task("checking") as work:
        yield from _rows(settings, patterns, exactly, work)


def _rows(settings: Mapping[str, Any], patterns: Sequence[str], exactly: bool, work: Task) -> Iterator[Row]:
    done: list[str] = []
    chosen_checks: list[str] | None = None
    retry = ""
    while chosen_checks is None or len(done) < len(chosen_checks):
        current, last, begun = "", "", time.monotonic()
        died = ""
        for kind, value in _worker_events(settings, patterns, done, retry=retry, exactly=exactly):
            if kind == "checks":
                chosen_checks = value
                work.expect(len(value))
            elif kind == "begin":
                current, last, begun = value, "", time.monotonic()
                work.describe(value)
            elif kind == "input":
                last = value
            elif kind == "row":
                yield Row(*value)
                done.append(value[0])
                work.advance()
                current = ""
            elif kind == "died":
                died = value
        if not died:
            return
        if not current:
            # The process died while it imported the package or listed the checks, or between two checks.
            yield Row("installation/start", "installation", "failed", f"the process {died}", 0.0)
            return
        if retry == current or not _tries_many(current):
            where = f"{last}: the process {died}" if last else f"the process {died}"
            yield Row(current, current.partition("/")[0], "failed", where, round(time.monotonic() - begun, 3))
            done.append(current)
            work.advance()
            retry = ""
        else:
            retry = current


def _tries_many(check: str) -> bool:
    """Return True if the check tries all its inputs in one model: after a crash the failing input is then unknown.

    Such a check then runs again and tries its inputs one by one.
    """
    return check.startswith("operators/")


def _worker_events(
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
    return call("edgecore.conformance.workers.worker:main", arguments, seconds=START_SECONDS, prepared=True)


def make_settings(
    name: str,
    *,
    options: Mapping[str, Any] | None = None,
    load_options: Mapping[str, Any] | None = None,
    quick: bool = False,
    tolerance: float | None = None,
    seconds: float | None = None,
    runner: Sequence[str] = (),
) -> dict[str, Any]:
    """Collect the arguments of `run` in a dict for the worker process."""
    return {
        "name": name,
        "options": dict(options or {}),
        "load_options": dict(load_options or {}),
        "quick": quick,
        "tolerance": tolerance,
        "seconds": seconds,
        "runner": list(runner),
    }


def chosen(check: str, patterns: Sequence[str], exactly: bool) -> bool:
    """Return True if one of `patterns` (complete names if `exactly` is true) selects the check."""
    return check in patterns if exactly else any(pattern in check or fnmatch(check, pattern) for pattern in patterns)
