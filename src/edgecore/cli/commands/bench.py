"""`edgecore bench`: measure the time of loading and running."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from edgecore.cli.common import (
    Data,
    File,
    Json,
    LoadOptions,
    Method,
    Threads,
    choose_method,
    parse_load_options,
    print_json,
)
from edgecore.progress import task


def command(
    file: File,
    method: Method = None,
    data: Data = None,
    backends: LoadOptions = None,
    threads: Threads = None,
    runs: Annotated[int, typer.Option(metavar="N", min=1, help="Number of measured runs, after the first run.")] = 50,
    as_json: Json = False,
) -> None:
    """Measure loading and running with random inputs: milliseconds of load, first run, median, 95th percentile."""
    with task(f"running {file} {runs} times"):
        name, figures = measure(
            file, method=method, data=data or (), options=parse_load_options(backends), threads=threads, runs=runs
        )
    if as_json:
        print_json({"file": str(file), "method": name, "threads": threads, "runs": runs, **_rounded(figures)})
        return
    for key, value in _rounded(figures).items():
        print(f"{key:<12} {value:>10}")


def measure(
    file: Path,
    *,
    method: str | None = None,
    data: Sequence[Path] = (),
    options: Mapping[str, Mapping[str, Any]] | None = None,
    threads: int | None = None,
    runs: int = 50,
) -> tuple[str, dict[str, float]]:
    """Measure loading and running a file with random inputs.

    Args:
        file: The `.pte`.
        method: The method to run; by default `forward`, or the only one.
        data: As in `edgecore.load`.
        options: As in `edgecore.load`.
        threads: As in `edgecore.load`.
        runs: Number of measured runs, after the first run.

    Returns:
        The name of the method; the milliseconds of loading and of the first run; the median and the 95th percentile of
        the other runs in milliseconds; the peak resident memory of this process in MiB.

    Raises:
        EdgecoreError: The file cannot be loaded or run.
    """
    import edgecore
    from edgecore.devtools.random_inputs import random_arguments

    start = time.perf_counter()
    model = edgecore.load(file, data, threads=threads, options=options)
    name = choose_method(list(model.methods), method, file)
    loaded = model.load_method(name)
    load_ms = _since(start)
    arguments = random_arguments(file, name, loaded.inputs)
    start = time.perf_counter()
    loaded(*arguments)
    first_ms = _since(start)
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        loaded(*arguments)
        times.append(_since(start))
    return name, {
        "load_ms": load_ms,
        "first_ms": first_ms,
        "median_ms": statistics.median(times),
        "p95_ms": sorted(times)[min(runs - 1, int(runs * 0.95))],
        "peak_rss_mb": _peak_rss_mb(),
    }


def _since(start: float) -> float:
    return (time.perf_counter() - start) * 1e3


def _rounded(figures: dict[str, float]) -> dict[str, float]:
    return {key: round(value, 3) for key, value in figures.items()}


def _peak_rss_mb() -> float:
    """Return the peak resident memory of this process in MiB, with Python and all imports; 0 on Windows."""
    if sys.platform == "win32":
        return 0.0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
