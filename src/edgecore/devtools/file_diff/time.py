"""Compare the times of two files with exact confidence intervals; the verdict may be "cannot tell"."""

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
"""Relative difference up to which two times count as the same: one machine's times vary by less within minutes."""
FEWEST = 10
"""Smallest number of runs of each file for a verdict: fewer runs do not show how much the times vary."""
_SIDES = 40
"""Inverse of the error probability on each side of an interval: 1 / 40 on each of the two sides leaves 95 %."""
_GROUPS = 4
"""Smallest number of groups with which a rank-sum test can reach a confidence of 95 %."""
_WARMUP = 5


def difference(a: Sequence[float], b: Sequence[float], *, paired: bool = False) -> dict[str, Any]:
    """Compare two samples of times.

    The confidence intervals are exact for few runs and for any distribution of the times, even a skewed one. Paired
    runs must be independent; the sign test gives the interval of their median ratio. Unpaired times are first reduced
    to medians of groups of consecutive runs, because a machine stays slow for several runs; then the Mann-Whitney test
    gives the interval (Moses' interval of the Hodges-Lehmann estimate). The interval does not cover a change of the
    machine's speed between two traces. Both tests: Hollander, Wolfe and Chicken, "Nonparametric Statistical Methods",
    3rd edition, sections 3.6 and 4.3.

    Args:
        a: Times of the first file, in the order in which they were measured.
        b: Times of the second file; equally many if `paired`.
        paired: True if the runs alternated, so that run i of both files had the same conditions.

    Returns:
        The keys `difference` (the median ratio `b / a`, minus 1), `interval` (contains the true difference with a
        probability of at least 95 %; None if a file has fewer than 10 times) and `verdict`: "slower" or "faster" (the
        interval excludes 0), "same" (the interval is within 3 % of 0) or "cannot tell".
    """
    if paired:
        ratios = sorted(_ratio(*pair) for pair in zip(a, b, strict=True))
        rank = _sign_test_rank(len(ratios))
    else:
        first, second = _medians(a), _medians(b)
        ratios = sorted(_ratio(*pair) for pair in itertools.product(first, second))
        rank = _rank_sum_rank(len(first), len(second))
    result = {"difference": statistics.median(ratios) - 1, "interval": None, "verdict": "cannot tell"}
    if min(len(a), len(b)) < FEWEST:
        return result
    low, high = ratios[rank - 1] - 1, ratios[-rank] - 1
    if -NOTICEABLE <= low and high <= NOTICEABLE:
        result["verdict"] = "same"
    elif low > 0 or high < 0:
        result["verdict"] = "slower" if low > 0 else "faster"
    return result | {"interval": [low, high]}


def _ratio(a: float, b: float) -> float:
    """Return b / a; 1 if both times are equal, even if both are 0 because the clock cannot resolve them."""
    return 1.0 if a == b else b / max(a, 1e-12)


def _medians(times: Sequence[float]) -> list[float]:
    """Split n consecutive times into about sqrt(n) groups, but at least 4 if possible; return each group's median."""
    groups = min(len(times), max(_GROUPS, math.isqrt(len(times))))
    ends = [len(times) * index // groups for index in range(groups + 1)]
    return [statistics.median(times[start:end]) for start, end in itertools.pairwise(ends)]


def _rank_of_bounds(counts: Sequence[int], total: int) -> int:
    """Return k such that the k-th smallest and the k-th largest ratio bound a 95 % interval; 0 if no k does.

    `counts[i]` of the `total` equally likely outcomes give the test statistic the value i.
    """
    sums = list(itertools.accumulate(counts))
    # divide integers: for many runs the counts exceed the largest float
    return bisect.bisect_right(sums, total // _SIDES)


@cache
def _sign_test_rank(pairs: int) -> int:
    return _rank_of_bounds([math.comb(pairs, k) for k in range(pairs // 2)], 2**pairs)


@cache
def _rank_sum_rank(m: int, n: int) -> int:
    counts = _rank_sums(m, n)
    return _rank_of_bounds(counts[: m * n // 2], sum(counts))


def _rank_sums(m: int, n: int) -> list[int]:
    """Count, for each value of the Mann-Whitney statistic, the orders of `m` and `n` values that lead to it.

    The counts are the coefficients of the Gaussian binomial, the product of (1 - q^(n + i)) / (1 - q^i) for i in 1..m.
    """
    counts = [1] + [0] * (m * n)
    for i in range(1, m + 1):
        for value in range(m * n, n + i - 1, -1):
            counts[value] -= counts[value - n - i]
        for value in range(i, m * n + 1):
            counts[value] += counts[value - i]
    return counts


def _result(a: Sequence[float], b: Sequence[float], how: str, paired: bool) -> dict[str, Any]:
    compared = difference(a, b, paired=paired)
    sides = {key: {"median_ms": statistics.median(times), "runs": len(times)} for key, times in (("a", a), ("b", b))}
    return {"different": compared["verdict"] in ("slower", "faster"), "how": how, **sides, **compared, "modules": []}


def traced_times(traces: Sequence[Trace]) -> dict[str, Any]:
    """Compare the times of two traces: of whole runs, and of each module."""
    times = [[run.duration / 1e6 for run in trace.runs] for trace in traces]
    result = _result(times[0], times[1], "traces", paired=False)
    rows = [{row.label: row.mean / 1e6 for row in summarize(trace, "module").rows} for trace in traces]
    labels = dict.fromkeys([*rows[0], *rows[1]])
    modules = [{"module": label, "a_ms": rows[0].get(label), "b_ms": rows[1].get(label)} for label in labels]
    result["modules"] = sorted(modules, key=lambda row: -abs((row["b_ms"] or 0) - (row["a_ms"] or 0)))
    return result


def read_traces(programs: Sequence[PteFile], dumps: Sequence[Any], method: str) -> list[Trace]:
    """Read the runs of a method from the trace of each program, without the first run, in which backends do one-time
    work.

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
    """Run two files alternately on this machine, and compare their times.

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
    """Run files alternately on this machine, and return the milliseconds of each file's runs.

    Args:
        files: Paths of the files.
        runs: Number of measured runs of each file.
        method: Name of the method.
        data: The `.ptd` files of each file.
        arguments: Takes a loaded method and the path of its file; returns the inputs.
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
    inputs = [arguments(side, file) if arguments else () for side, file in zip(loaded, files, strict=True)]
    times: list[list[float]] = [[] for _ in files]
    for index in range(_WARMUP + runs):
        for side in range(len(files))[:: 1 if index % 2 else -1]:  # alternate which file runs first
            start = time.perf_counter()
            loaded[side](*inputs[side])
            if index >= _WARMUP:
                times[side].append((time.perf_counter() - start) * 1e3)
    return times
