"""Profile a file: run it with a trace, and show its time by operator, module, backend or line."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgecore.devtools.file_arguments import program_file
from edgecore.devtools.printable import join_lines
from edgecore.devtools.profiling.estimated_cycles import Estimate, estimate_label, estimate_lines, estimates
from edgecore.devtools.profiling.exports import chrome_trace, speedscope
from edgecore.devtools.profiling.summary import Row, Summary, label, summarize
from edgecore.devtools.profiling.symbols import ProgramSymbols
from edgecore.devtools.profiling.trace import Trace
from edgecore.errors import EdgecoreError, FormatError
from edgecore.format import PteFile
from edgecore.format.etdump import ETDump, RunData, read_etdump


@dataclass(slots=True)
class Profile:
    """The measured runs of a method.

    Attributes:
        file: Name of the file.
        method: Name of the method.
        threads: Number of threads; None if the runtime chose it.
        load_ms: Milliseconds of loading; 0 if the trace does not record it.
        first_ms: Milliseconds of the first run, in which backends do one-time work.
        trace: The measured runs, without warm-up runs.
        pte: The file.
        dropped: Number of measured runs, the oldest, that are missing because the trace's memory was full.
    """

    file: str
    method: str
    threads: int | None
    load_ms: float
    first_ms: float
    trace: Trace
    pte: PteFile
    dropped: int = 0
    recorded: bool = False
    """True if the trace was recorded elsewhere: it may lack the first runs, and the number of threads is unknown."""

    def summary(self, by: str = "operator") -> Summary:
        """Add up the times of the runs by "operator", "module", "backend", "line" or "kernel"."""
        return summarize(self.trace, by)

    def table(self, by: str = "operator", top: int = 20, width: int = 100) -> str:
        """Format the times as a table.

        Args:
            by: The groups to sum up: "operator", "module", "backend", "line" or "kernel".
            top: Number of rows; the other groups become one row.
            width: Number of characters of a line.
        """
        measured = format_rows(self.summary(by), by, top, width)
        return join_lines([*self._head(), "", *measured, *estimate_lines(self.estimates(), by, top)])

    def estimates(self) -> list[Estimate]:
        """Return, for each operation, the cycles that the backend's compiler estimated for its device."""
        return estimates(self.pte, self.method)

    def _head(self) -> list[str]:
        summary = self.summary()
        unit, scale = _unit(summary)
        times = sorted(duration / scale for duration in summary.every)
        missing = f" ({self.dropped} older ones are missing: the trace was full)" if self.dropped else ""
        runs = f"median of {len(times)} runs{missing} {statistics.median(times):.3f} {unit}"
        conditions = ", ".join(f"{name} {value}" for name, value in self.conditions())
        return [
            f"{self.file}, method {self.method}: {runs}, fastest {times[0]:.3f}, slowest {times[-1]:.3f}",
            conditions,
        ]

    def conditions(self) -> list[tuple[str, str]]:
        """Return the conditions of the runs as pairs of name and value: loading, first run, threads."""
        load, first = ("load", f"{self.load_ms:.1f} ms"), f"{self.first_ms:.2f} ms"
        if self.recorded:
            return [*([load] if self.load_ms else []), ("first run of the trace", first)]
        return [load, ("first run", first), ("threads", str(self.threads or "by default"))]

    def as_dict(self, by: str = "operator") -> dict[str, Any]:
        """Return the figures for JSON: the runs, the times summed up by `by`, the events, and the estimated cycles."""
        summary = self.summary(by)
        return {
            "file": self.file,
            "method": self.method,
            "threads": self.threads,
            "load_ms": round(self.load_ms, 4),
            "first_ms": round(self.first_ms, 4),
            "runs_ms": [duration / 1e6 for duration in summary.every],
            "dropped_runs": self.dropped,
            "run_ms": summary.mean / 1e6,
            "covered": round(summary.covered, 6),
            "by": by,
            "rows": [_row(row, summary.mean) for row in summary.rows],
            "events": self._events(),
            "estimated_cycles": [
                {
                    "backend": row.backend,
                    "operation": row.operation,
                    "label": estimate_label(row, by),
                    "cycles": row.cycles,
                    "handles": [origin.handle for origin in row.origins],
                }
                for row in self.estimates()
            ],
        }

    def _events(self) -> list[dict[str, Any]]:
        """Return the events of the fastest run for JSON, in chronological order."""
        run = min(self.trace.runs, key=lambda candidate: candidate.duration)
        zero = min((event.start for event in run.events if event.placed), default=0)
        return [
            {
                "name": event.name,
                "kind": event.kind,
                "kernel": event.kernel,
                "instruction": event.instruction,
                "backend": event.backend,
                "start_ms": (event.start - zero) / 1e6,
                "ms": event.duration / 1e6,
                "operator": label(event, "operator"),
                "module": label(event, "module"),
                "line": label(event, "line"),
                "handles": [origin.handle for origin in event.origins],
            }
            for event in run.events
        ]

    def to_html(self) -> str:
        """Return the profile as an HTML page that needs no other file and makes no request."""
        from edgecore.devtools.pages import profile_page

        return profile_page(self)

    def _repr_html_(self) -> str:
        """Return the page for a notebook."""
        from edgecore.html import frame

        return frame(self.to_html())

    def to_chrome(self) -> dict[str, Any]:
        """Return the runs in the format of chrome://tracing and ui.perfetto.dev."""
        return chrome_trace(self.trace, self.file)

    def to_speedscope(self) -> dict[str, Any]:
        """Return the runs in the format of speedscope.app."""
        return speedscope(self.trace, self.file)


def _row(row: Row, mean: float) -> dict[str, Any]:
    return {
        "label": row.label,
        "backend": row.backend,
        "calls": row.calls,
        "ms": row.mean / 1e6,
        "share": row.mean / mean if mean else 0.0,
        "min_ms": min(row.times) / 1e6,
        "max_ms": max(row.times) / 1e6,
        "rest": row.rest,
    }


def profile(
    file: Any,
    *inputs: Any,
    method: str = "forward",
    runs: int = 50,
    warmup: int = 5,
    threads: int | None = None,
    data: Sequence[Any] = (),
    options: Mapping[str, Mapping[str, Any]] | None = None,
    arguments: Callable[[Any], Sequence[Any]] | None = None,
    trace_limit: int = 64 << 20,
) -> Profile:
    """Run a file on this machine, and measure where its time goes.

    Args:
        file: Path of a `.pte` or `.bpte`.
        inputs: The inputs of the method.
        method: Name of the method.
        runs: Number of measured runs.
        warmup: Number of runs before the measured ones.
        threads: As in `edgecore.load`.
        data: As in `edgecore.load`.
        options: As in `edgecore.load`.
        arguments: Takes the loaded method and returns its inputs; replaces `inputs`.
        trace_limit: As in `edgecore.load`. A full trace drops its oldest runs.

    Returns:
        The measured runs.

    Raises:
        ValueError: `runs` is below 1, or `warmup` is negative.
        EdgecoreError: The file cannot be loaded or run, or `trace_limit` is too low for the events of one run.

    Example:
        >>> print(edgecore.devtools.profile("model.pte", x).table(by="module"))
    """
    import edgecore

    if runs < 1 or warmup < 0:
        raise ValueError(f"runs must be at least 1 and warmup at least 0; got {runs} and {warmup}")
    name = Path(file).name
    pte = program_file(file)
    start = time.perf_counter()
    program = edgecore.load(file, data, threads=threads, options=options, trace=True, trace_limit=trace_limit)
    loaded = program.load_method(method)
    load_ms = (time.perf_counter() - start) * 1e3
    values = arguments(loaded) if arguments else inputs
    recorded = _recorded(program)
    first_ms = 0.0
    for index in range(warmup + runs):
        if index == warmup:
            program.trace.clear()
        start = time.perf_counter()
        loaded(*values)
        if index == 0:
            first_ms = (time.perf_counter() - start) * 1e3
    trace = Trace(ETDump(0, [*recorded, *_recorded(program)]), ProgramSymbols(pte)).select(method)
    if not trace.runs:
        raise EdgecoreError(
            f"{name}: the events of one run of {method} need more memory than a trace has, {trace_limit} bytes for all "
            "methods; pass a larger trace_limit to edgecore.devtools.profile"
        )
    return Profile(name, method, threads, load_ms, first_ms, trace, pte, runs - len(trace.runs))


def profile_of_trace(file: Any, etdump: Any, method: str = "forward") -> Profile:
    """Make a profile from a trace that was recorded elsewhere.

    Args:
        file: Path of the `.pte` or `.bpte` that ran.
        etdump: Path of its ETDump, or of trace records of firmware (`edgecore/trace_buffer.h`).
        method: Name of the method.

    Raises:
        FormatError: A file is damaged or of another kind, or the trace is of another program.
        EdgecoreError: The trace has no run of the method.
    """
    pte = program_file(file)
    whole = Trace.read(etdump, program=pte)
    trace = whole.select(method)
    if not trace.runs:
        raise EdgecoreError(f"{etdump} has no run of the method {method}")
    if not all(run.method for run in trace.runs):
        raise FormatError(
            f"{etdump} is a trace of another program than {file}: it has a run that fits none of its methods"
        )
    loads = [
        event.duration for block in whole.others for event in block.events if event.kernel == "Program::load_method"
    ]
    load_ms, first_ms = sum(loads) / 1e6, trace.runs[0].duration / 1e6
    return Profile(Path(file).name, method, None, load_ms, first_ms, trace, pte, recorded=True)


def _recorded(program: Any) -> list[RunData]:
    """Return the runs that the trace of a loaded program has recorded so far."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.etdp"
        program.write_trace(path)
        return read_etdump(path.read_bytes()).run_data


def format_rows(summary: Summary, by: str, top: int, width: int = 100) -> list[str]:
    """Format the rows as a table: the longest times, the sum of the others, time outside of operators, the total."""
    shown = [row for row in summary.rows if not row.rest]
    lines = [(row.label, row.backend, row.calls, row.mean) for row in shown[:top]]
    if shown[top:]:
        left = shown[top:]
        words = f"({len(left)} more)"
        lines.append((words, "", sum(row.calls for row in left), sum(row.mean for row in left)))
    lines += [(row.label, "", row.calls, row.mean) for row in summary.rows if row.rest]
    backend = 0 if by == "backend" else max((len(line[1]) for line in lines), default=0) + 2
    room = max(width - backend - 46, 36)
    total = summary.mean or 1.0
    unit, scale = _unit(summary)
    text = [f"{by:<{room}}{'backend' if backend else '':<{backend}}{'calls':>7}{unit:>10}{'%':>7}{'sum %':>7}"]
    before = 0.0
    for name, runs_on, calls, mean in lines:
        before += mean
        figures = f"{calls:>7.4g}{mean / scale:>10.4f}{100 * mean / total:>7.1f}{100 * before / total:>7.1f}"
        bar = "#" * round(14 * mean / total)
        named = _shortened(name, room - 2, keep_end=by == "line" and not name.startswith("("))
        text.append(f"{named:<{room}}{runs_on if backend else '':<{backend}}{figures} {bar}".rstrip())
    text.append(f"{'a run (mean of the middle half)':<{room + backend + 7}}{summary.mean / scale:>10.4f}{100:>7.1f}")
    if summary.unplaced:
        text.append(f"{summary.unplaced} events have times of a clock of their own, and are in no row")
    return text


def _unit(summary: Summary) -> tuple[str, float]:
    """Choose the unit of a table; return its name and its length in nanoseconds."""
    return ("ms", 1e6) if summary.mean >= 1e6 else ("us", 1e3)


def _shortened(text: str, room: int, keep_end: bool) -> str:
    if len(text) <= room:
        return text
    return "..." + text[3 - room :] if keep_end else text[: room - 3] + "..."
