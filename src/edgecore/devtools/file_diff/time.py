"""Compare the times of two files, and say so if the measurements cannot tell which is faster."""

from __future__ import annotations

import bisect
import itertools
import math
import statistics
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from edgecore.devtools.profiling import Trace, summarize
from edgecore.errors import EdgecoreError, FormatError
from edgecore.format import PteFile

NOTICEABLE = 0.03
"""A relative difference that counts: machines differ by less from one minute to the next."""
FEWEST = 10
"""Runs of each file that a verdict needs: few runs see too little of what a machine does."""
_SIDES = 40
"""One divided by the largest probability that the difference is below an interval, or that it is above it: 95 %."""
_GROUPS = 4
"""Smallest number of groups of runs for which a rank sum can reach that probability."""
_WARMUP = 5


def difference(a: Sequence[float], b: Sequence[float], *, paired: bool = False) -> dict[str, Any]:
    """Compare two samples of times.

    The intervals are exact for any distribution of the times, also a skewed one, and for few runs. That of pairs is the
    interval of the sign test for the median of their ratios; the pairs must be independent of one another. Otherwise it
    is the interval of the Mann-Whitney test for the ratio (Moses' interval of the Hodges-Lehmann estimate) over medians
    of groups of neighbours, since a machine is slow for several runs at a time. It says nothing about how the machine
    itself has changed between two traces. Both are in Hollander, Wolfe and Chicken, "Nonparametric Statistical Methods",
    3rd edition, sections 3.6 and 4.3.

    Args:
        a: Times of the first file, in the order in which they were measured.
        b: Times of the second one; of equal number if they are paired.
        paired: The runs alternated, so that run i of both had the same conditions.

    Returns:
        The keys `difference` (the median of the ratios `b / a`, minus 1), `interval` (in which it lies with a
        probability of at least 95 %) and `verdict`: "slower" or "faster" (`b` differs from `a`, and it may be by more
        than 3 %), "same" (it differs by at most 3 %) or "cannot tell". With fewer than 10 times of a file it cannot
        tell, and the interval is None.
    """
    if paired:
        ratios = sorted(_ratio(one, other) for one, other in zip(a, b, strict=True))
        place = _place_of_sign(len(ratios))
    else:
        first, second = _medians(a), _medians(b)
        ratios = sorted(_ratio(one, other) for one in first for other in second)
        place = _place_of_rank_sum(len(first), len(second))
    found = {"difference": statistics.median(ratios) - 1, "interval": None, "verdict": "cannot tell"}
    if min(len(a), len(b)) < FEWEST:
        return found
    low, high = ratios[place - 1] - 1, ratios[-place] - 1
    if -NOTICEABLE <= low and high <= NOTICEABLE:
        found["verdict"] = "same"
    elif low > 0 or high < 0:
        found["verdict"] = "slower" if low > 0 else "faster"
    return found | {"interval": [low, high]}


def _ratio(a: float, b: float) -> float:
    """Return b / a; 1 for equal times, also for two that are too short for the clock."""
    return 1.0 if a == b else b / max(a, 1e-12)


def _medians(times: Sequence[float]) -> list[float]:
    """Return the medians of groups of neighbours, whose number and size are about equal."""
    groups = min(len(times), max(_GROUPS, math.isqrt(len(times))))
    ends = [len(times) * index // groups for index in range(groups + 1)]
    return [statistics.median(times[start:end]) for start, end in itertools.pairwise(ends)]


def _place_of_bounds(counts: Sequence[int], total: int) -> int:
    """Return the place of the interval's bounds in sorted values, counted from 1 from either end; 0: there is none.

    Args:
        counts: Number of equally probable cases in which the statistic is 0, 1, 2 and so on.
        total: Number of all cases.
    """
    sums = list(itertools.accumulate(counts))
    return bisect.bisect_right(sums, total // _SIDES)  # integers, since a total of many runs is too large for a float


@cache
def _place_of_sign(pairs: int) -> int:
    return _place_of_bounds([math.comb(pairs, k) for k in range(pairs // 2)], 2**pairs)


@cache
def _place_of_rank_sum(m: int, n: int) -> int:
    counts = _rank_sums(m, n)
    return _place_of_bounds(counts[: m * n // 2], sum(counts))


def _rank_sums(m: int, n: int) -> list[int]:
    """Count for each value of Mann and Whitney's statistic the orders of `m` and `n` values that have it.

    They are the coefficients of the Gaussian binomial, a product of (1 - q^(n + i)) / (1 - q^i) for i from 1 to m.
    """
    counts = [1] + [0] * (m * n)
    for i in range(1, m + 1):
        for value in range(m * n, n + i - 1, -1):
            counts[value] -= counts[value - n - i]
        for value in range(i, m * n + 1):
            counts[value] += counts[value - i]
    return counts


def _result(a: Sequence[float], b: Sequence[float], how: str, paired: bool) -> dict[str, Any]:
    found = difference(a, b, paired=paired)
    sides = {key: {"median_ms": statistics.median(times), "runs": len(times)} for key, times in (("a", a), ("b", b))}
    return {"different": found["verdict"] in ("slower", "faster"), "how": how, **sides, **found, "modules": []}


def traced_times(traces: Sequence[Trace]) -> dict[str, Any]:
    """Compare the runs of two traces, and the times of their modules."""
    times = [[run.duration / 1e6 for run in trace.runs] for trace in traces]
    result = _result(times[0], times[1], "traces", paired=False)
    rows = [{row.label: row.mean / 1e6 for row in summarize(trace, "module").rows} for trace in traces]
    labels = dict.fromkeys([*rows[0], *rows[1]])
    modules = [{"module": label, "a_ms": rows[0].get(label), "b_ms": rows[1].get(label)} for label in labels]
    result["modules"] = sorted(modules, key=lambda row: -abs((row["b_ms"] or 0) - (row["a_ms"] or 0)))
    return result


def read_traces(programs: Sequence[PteFile], dumps: Sequence[Any], method: str) -> list[Trace]:
    """Return for each program the runs of a method that count: not the first one, in which backends prepare.

    Raises:
        FormatError: A trace is damaged.
        EdgecoreError: A trace has fewer than three runs of the method.
    """
    traces = [_trace(program, dump).select(method) for program, dump in zip(programs, dumps, strict=True)]
    for dump, trace in zip(dumps, traces, strict=True):
        if len(trace.runs) < 3:
            raise EdgecoreError(f"{dump} has {len(trace.runs)} runs of {method}; a comparison needs at least 3")
        trace.runs = trace.runs[1:]
    return traces


def _trace(program: PteFile, dump: Any) -> Trace:
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
