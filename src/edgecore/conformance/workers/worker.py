"""The worker process of the suite: list the checks for a backend, and run the selected checks."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgecore.conformance.check import BackendUnderTest, Check, Declared, Failed, Skipped
from edgecore.conformance.workers.runner import Runner
from edgecore.errors import CompileError, FallbackWarning

if TYPE_CHECKING:
    from edgecore.plugin import BackendInfo

GROUPS = (
    "installation",
    "documentation",
    "options",
    "partitioner",
    "operators",
    "networks",
    "recipes",
    "recipe_parameters",
    "shapes",
    "priority",
    "methods",
    "lifetime",
    "values",
    "state",
    "device",
    "declarations",
    "blobs",
)
"""Modules of `edgecore.conformance.checks`, in the order of the report; each has a function `checks(subject)`."""

Emit = Callable[[str, Any], None]


def main(
    emit: Emit,
    settings: dict[str, Any],
    patterns: Sequence[str],
    done: Sequence[str],
    retry: str,
    list_only: bool,
    exactly: bool,
) -> None:
    """List the checks that the patterns select, and run each one that is not in `done`.

    Emits an event `checks` with the names of all selected checks. Then emits for each check: `seconds` (its time
    limit), `begin` (its name), `input` (a description of the input that the check tries next; any number of times) and
    `row` (its result).

    Args:
        emit: Sends an event to the parent process.
        settings: Result of `session.make_settings`.
        patterns: See `session.rows`.
        done: Names of checks that have ended already.
        retry: Name of the check that crashed the last worker, and now tries its inputs one by one.
        list_only: Only emit `checks`.
        exactly: See `session.rows`.
    """
    from edgecore.conformance.workers.session import chosen

    warnings.simplefilter("error", FallbackWarning)  # fail the check if a partition falls back to kernels
    with tempfile.TemporaryDirectory(prefix="edgecore-conformance-") as folder:
        subject = _subject(settings, Path(folder), emit)
        selected = [check for check in _checks(subject) if chosen(check.name, patterns, exactly)]
        emit("checks", [check.name for check in selected])
        for check in selected if not list_only else ():
            if check.name in done:
                continue
            subject.limit = settings["seconds"] or check.seconds
            emit("seconds", subject.limit)
            emit("begin", check.name)
            subject.individually = check.name == retry
            subject.last_input = ""
            start = time.perf_counter()
            outcome, detail = _outcome(check, subject)
            emit("row", [check.name, check.group, outcome, detail, round(time.perf_counter() - start, 3)])


def _outcome(check: Check, subject: BackendUnderTest) -> tuple[str, str]:
    if check.needs_run and subject.cannot_run:
        return "skipped", subject.cannot_run
    if subject.runner is not None and check.in_process:
        return "skipped", f"a runner cannot do it: {check.in_process}"
    try:
        return "passed", check.run(subject)
    except Skipped as reason:
        return "skipped", str(reason)
    except Failed as problem:
        return "failed", str(problem)
    except FallbackWarning as warning:
        return "failed", f"{subject.last_input}: {warning}" if subject.last_input else str(warning)
    except Exception as error:
        where = f"{subject.last_input}: " if subject.last_input else ""
        return "failed", f"{where}{type(error).__name__}: {error}"


def _checks(subject: BackendUnderTest) -> Iterator[Check]:
    for group in GROUPS:
        yield from import_module(f"edgecore.conformance.checks.{group}").checks(subject)


def _subject(settings: dict[str, Any], folder: Path, emit: Emit) -> BackendUnderTest:
    from edgecore.errors import BackendError
    from edgecore.plugin import CrossCompiler, registry
    from edgecore.plugin.diagnosis.loader_errors import wrong_file

    info = registry.find_by_name(settings["name"])
    compiler = registry.load_compiler(info)
    library, cannot_run, declared = None, "", Declared()
    runner = Runner(tuple(settings["runner"])) if settings["runner"] else None
    if info.native_library is None:
        cannot_run = "the backend only compiles: its BackendInfo has no native_library"
    else:
        library = Path(info.native_library())
        declared = _declared(library)
        problems = list(filter(None, [wrong_file(library)]))
        try:
            problems += (f"{problem.what} ({problem.remedy})" for problem in compiler.check())
        except BackendError as error:
            problems.append(str(error))
        if problems:
            cannot_run = f"this machine lacks something: {'; '.join(problems)}"
        elif isinstance(compiler, CrossCompiler):
            cannot_run = compiler.cannot_run_here(settings["load_options"])
    return BackendUnderTest(
        name=info.name,
        info=info,
        compiler=compiler,
        distribution=registry.provider_of(info).distribution,
        options=settings["options"],
        load_options=settings["load_options"],
        quick=settings["quick"],
        tolerance=_tolerance(info, settings["options"]) if settings["tolerance"] is None else settings["tolerance"],
        seconds=settings["seconds"],
        folder=folder,
        library=library,
        declared=declared,
        cannot_run="" if runner else cannot_run,
        runner=runner,
        report_input=lambda text: emit("input", text),
    )


def _tolerance(info: BackendInfo, options: Mapping[str, Any]) -> float | None:
    """Return the tolerance for results of a backend that computes float32 values in float16; None for another."""
    import torch

    from edgecore.backend import Backend
    from edgecore.conformance.programs import TOLERANCES
    from edgecore.pipeline.chosen_backends import float_dtype

    try:
        dtype = float_dtype([Backend(info.name, **options)], {info.backend_id})
    except CompileError:
        return None  # each check that compiles reports the options that are wrong
    return None if dtype == "float32" else TOLERANCES[torch.float16]


def _declared(library: Path) -> Declared:
    """Read the flags and functions that the native library declares. A child process loads it, because it may crash."""
    from edgecore.plugin.diagnosis.doctor import probe

    table = probe(str(library))
    if isinstance(table, str):
        return Declared()  # the library does not load; the checks `installation/...` report the reason
    flags, functions = (frozenset(table.get(key, ())) for key in ("flags", "functions"))
    return Declared(flags, functions, tuple(table.get("options", ())))
