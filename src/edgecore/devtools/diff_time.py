"""Compare the times of two files, and say so if the measurements cannot tell which is faster."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from edgecore.devtools.sources import program_file
from edgecore.devtools.summary import summarize
from edgecore.devtools.trace import Trace
from edgecore.errors import EdgecoreError, FormatError

NOTICEABLE = 0.03
"""A relative difference that counts: machines differ by less from one minute to the next."""
FEWEST = 10
"""Runs of each file that a verdict needs: the bootstrap of fewer has much too narrow an interval, for one run none."""
_RESAMPLES = 1000
_WARMUP = 5


def difference(a: Sequence[float], b: Sequence[float], *, paired: bool = False) -> dict[str, Any]:
    """Compare two samples of times.

    Args:
        a: Times of the first file, in the order in which they were measured.
        b: Times of the second one.
        paired: The runs alternated, so that run i of both had the same conditions.

    Returns:
        The keys `difference` (of the medians, relative to that of `a`), `interval` (its 95 % bootstrap interval) and
        `verdict`: "slower" or "faster" (`b` differs from `a`, and it may be by more than 3 %), "same" (it differs by at
        most 3 %) or "cannot tell". With fewer than 10 times of a file it cannot tell, and the interval is None.
    """
    found = _relative(a, b)
    if min(len(a), len(b)) < FEWEST:
        return {"difference": found, "interval": None, "verdict": "cannot tell"}
    source = random.Random(0)  # the same samples always have the same verdict
    estimates = []
    for _ in range(_RESAMPLES):
        first = _blocks(len(a), source)
        second = first if paired else _blocks(len(b), source)
        estimates.append(_relative([a[i] for i in first], [b[i] for i in second]))
    estimates.sort()
    low, high = estimates[int(0.025 * _RESAMPLES)], estimates[int(0.975 * _RESAMPLES) - 1]
    verdict = "cannot tell"
    if -NOTICEABLE <= low and high <= NOTICEABLE:
        verdict = "same"
    elif low > 0 or high < 0:
        verdict = "slower" if low > 0 else "faster"
    return {"difference": found, "interval": [low, high], "verdict": verdict}


def _relative(a: Sequence[float], b: Sequence[float]) -> float:
    return statistics.median(b) / max(statistics.median(a), 1e-12) - 1


def _blocks(count: int, source: random.Random) -> list[int]:
    """Draw the indices of a sample in blocks of neighbours, since a machine is slow for several runs at a time."""
    length = math.isqrt(count - 1) + 1
    drawn: list[int] = []
    while len(drawn) < count:
        start = source.randrange(count)
        drawn += [(start + i) % count for i in range(length)]
    return drawn[:count]


def _result(a: Sequence[float], b: Sequence[float], how: str, paired: bool) -> dict[str, Any]:
    found = difference(a, b, paired=paired)
    sides = {key: {"median_ms": statistics.median(times), "runs": len(times)} for key, times in (("a", a), ("b", b))}
    return {"different": found["verdict"] in ("slower", "faster"), "how": how, **sides, **found, "modules": []}


def traced_times(files: tuple[Any, Any], traces: tuple[Any, Any], method: str) -> dict[str, Any]:
    """Compare the runs of two ETDumps, and the times of their modules.

    Raises:
        FormatError: A file or a trace is damaged.
        EdgecoreError: A trace has fewer than three runs of the method.
    """
    read = [_trace(file, dump).select(method) for file, dump in zip(files, traces, strict=True)]
    for dump, trace in zip(traces, read, strict=True):
        if len(trace.runs) < 3:
            raise EdgecoreError(f"{dump} has {len(trace.runs)} runs of {method}; a comparison needs at least 3")
        trace.runs = trace.runs[1:]  # in the first one backends prepare
    times = [[run.duration / 1e6 for run in trace.runs] for trace in read]
    result = _result(times[0], times[1], "traces", paired=False)
    rows = [{row.label: row.mean / 1e6 for row in summarize(trace, "module").rows} for trace in read]
    labels = dict.fromkeys([*rows[0], *rows[1]])
    modules = [{"module": label, "a_ms": rows[0].get(label), "b_ms": rows[1].get(label)} for label in labels]
    result["modules"] = sorted(modules, key=lambda row: -abs((row["b_ms"] or 0) - (row["a_ms"] or 0)))
    return result


def _trace(file: Any, dump: Any) -> Trace:
    program = program_file(file)
    try:
        return Trace.read(dump, program=program)
    except FormatError as error:
        raise FormatError(f"{dump}: {error}") from error


def measured_times(
    files: tuple[Any, Any],
    runs: int,
    method: str,
    data: tuple[Sequence[Any], Sequence[Any]],
    arguments: Callable[[Any, Any], Sequence[Any]] | None,
    threads: int | None,
) -> dict[str, Any]:
    """Run two files here in turns, and compare their times.

    Raises:
        EdgecoreError: A file cannot be loaded or run.
    """
    times = measured_runs(files, runs, method, data, arguments, threads)
    return _result(times[0], times[1], "runs in turns", paired=True)


def measured_runs(
    files: Sequence[Any],
    runs: int,
    method: str,
    data: Sequence[Sequence[Any]],
    arguments: Callable[[Any, Any], Sequence[Any]] | None,
    threads: int | None,
) -> list[list[float]]:
    """Run files here in turns, and return the milliseconds of the runs of each.

    Args:
        files: Paths of the files.
        runs: Number of measured runs of each.
        method: Name of the method.
        data: The `.ptd` files of each.
        arguments: Function that gets a loaded method and the path of its file, and returns the inputs.
        threads: As in `edgecore.load`.

    Raises:
        EdgecoreError: A file cannot be loaded or run, or has no such method.
    """
    import edgecore

    loaded = []
    for file, extra in zip(files, data, strict=True):
        program = edgecore.load(file, extra, threads=threads)
        if method not in program.methods:
            raise EdgecoreError(f"{file} has no method {method!r}; it has {', '.join(program.methods)}")
        loaded.append(program[method])
    inputs = [arguments(one, file) if arguments else () for one, file in zip(loaded, files, strict=True)]
    times: list[list[float]] = [[] for _ in files]
    for index in range(_WARMUP + runs):
        for side in range(len(files))[:: 1 if index % 2 else -1]:  # each goes first in half of the turns
            start = time.perf_counter()
            loaded[side](*inputs[side])
            if index >= _WARMUP:
                times[side].append((time.perf_counter() - start) * 1e3)
    return times
