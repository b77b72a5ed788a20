"""Keep the history of a file's figures in a `.jsonl`, one line per measurement, and report regressions in it."""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from edgecore.devtools.budget import figures
from edgecore.devtools.file_diff import FEWEST, NOTICEABLE, measured_runs
from edgecore.devtools.printable import join_lines
from edgecore.errors import EdgecoreError

SCHEMA = "edgecore.track.v1"
KINDS = ("size", "memory", "operators", "time")
"""The kinds of regressions, as `--fail-on` names them."""
_FIGURES = ("file_bytes", "planned_bytes", "delegate_bytes", "kernels")
_TIMES = ("median_ms", "low_ms", "high_ms")
_BYTES = (
    ("size", "file_bytes", "the file has"),
    ("memory", "planned_bytes", "the arenas have"),
    ("memory", "delegate_bytes", "delegates need"),
)
"""The figures in bytes: (kind of regression, name of the figure, beginning of the error sentence)."""
_BASELINE = 5
"""A new entry is compared with the median of this many latest comparable entries."""
_GROWTH = 0.01
"""Smallest relative growth of bytes that counts; metadata varies by less, for example with the length of paths."""


@dataclass(slots=True)
class Entry:
    """The figures of a file at one time; one line of the history.

    Attributes:
        file: Name of the file.
        label: Text from the caller, such as the commit.
        date: The time of the measurement, in UTC.
        processor: Name of the processor, with the number of cores.
        figures: Sizes in bytes, and the number of operators that kernels compute; None where the file lacks a figure.
        time: Median and both quartiles of the runs' milliseconds, with method, runs and threads; None if nothing ran.
        accepted: True if the user accepted the entry as a new baseline.
        regressed: The kinds of regressions (see `KINDS`) that this entry had.
    """

    file: str
    label: str
    date: str
    processor: str
    figures: dict[str, int | None]
    time: dict[str, Any] | None = None
    accepted: bool = False
    regressed: list[str] = field(default_factory=list)

    def line(self) -> str:
        """Format the entry as a line of the history."""
        content = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps({"schema": SCHEMA, **content}) + "\n"


def measure(
    file: Path,
    *,
    label: str = "",
    runs: int = 50,
    method: str = "forward",
    threads: int | None = None,
    data: Sequence[Any] = (),
    arguments: Callable[[Any, Any], Sequence[Any]] | None = None,
) -> Entry:
    """Measure the sizes and run times of a file, for a new entry of its history.

    Args:
        file: The `.pte` or `.bpte`.
        label: Text for the entry, such as the commit.
        runs: Number of measured runs; 0 runs nothing.
        method: The method to run.
        threads: As in `edgecore.load`.
        data: As in `edgecore.load`.
        arguments: Takes the loaded method and the path of the file; returns the inputs.

    Raises:
        EdgecoreError: The file is damaged, or cannot run.
    """
    measured = figures(file)
    time: dict[str, Any] | None = None
    if runs:
        times = sorted(measured_runs((file,), runs, method, (data,), arguments, threads)[0])
        low, high = times[len(times) // 4], times[-1 - len(times) // 4]
        time = {"method": method, "runs": runs, "threads": threads}
        time |= {"median_ms": statistics.median(times), "low_ms": low, "high_ms": high}
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Entry(file.name, label, now, processor(), {name: measured[name] for name in _FIGURES}, time)


def processor() -> str:
    """Return the name of this machine's processor and the number of its cores."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    facts = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    return f"{facts.get('model name', name)} ({os.cpu_count()} cores)"


def read_history(path: Path) -> list[Entry]:
    """Read a history; a missing file is an empty history.

    Raises:
        EdgecoreError: A line is damaged, or is not an entry that `edgecore track` wrote.
    """
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")
    return [_entry(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]


def _entry(line: bytes, place: str) -> Entry:
    try:
        content = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        raise EdgecoreError(f"{place} is no JSON; restore the file, or remove the line") from None
    if not isinstance(content, dict) or content.pop("schema", None) != SCHEMA:
        raise EdgecoreError(f"{place} is no entry of `edgecore track`; choose another file with --history")
    try:
        entry = Entry(**content)
    except TypeError:
        entry = None
    if entry is None or not _is_valid(entry):
        raise EdgecoreError(f"{place} lacks figures, or has wrong ones; restore the file, or remove the line")
    return entry


def _is_valid(entry: Entry) -> bool:
    texts = (entry.file, entry.label, entry.date, entry.processor)
    if not all(isinstance(text, str) for text in texts) or not isinstance(entry.accepted, bool):
        return False
    if not isinstance(entry.regressed, list) or not all(isinstance(kind, str) for kind in entry.regressed):
        return False
    if not isinstance(entry.figures, dict) or not set(_FIGURES) <= set(entry.figures):
        return False
    if not all(value is None or _is_number(value) for value in entry.figures.values()):
        return False
    time = entry.time
    return time is None or (
        isinstance(time, dict)
        and {"method", "threads"} <= set(time)
        and all(_is_number(time.get(name)) and time[name] > 0 for name in _TIMES)
    )


def _is_number(value: Any) -> bool:
    """Return True for a number from 0 to 1e18; arithmetic with larger ones from a damaged file could overflow."""
    return (
        isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1e18 and math.isfinite(value)
    )


def append(path: Path, entry: Entry) -> None:
    """Append an entry to a history file; first add the line end after the last entry if an editor has removed it."""
    with path.open("ab+") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(end - 1, 0))
        file.write((b"\n" if end and file.read(1) != b"\n" else b"") + entry.line().encode("utf-8"))


def regressions(history: Sequence[Entry], entry: Entry) -> dict[str, str]:
    """Compare an entry with earlier entries.

    A figure is compared with its median over the file's last five entries since the last accepted baseline, without
    entries that had regressed. For times, these entries also have the same processor, method and number of
    threads. Bytes regress if they grow by more than 1 %; operators if kernels compute more of them; times if the median
    is more than 3 % longer and the lower quartile is above all earlier upper quartiles. Times of fewer than 10 runs are
    not compared.

    Returns:
        One sentence for each regressed kind of `KINDS`.
    """
    known = [earlier for earlier in history if earlier.file == entry.file]
    accepted = max((index for index, earlier in enumerate(known) if earlier.accepted), default=0)
    known = known[accepted:]
    worse: dict[str, str] = {}
    for kind, name, words in _BYTES:
        value, before = entry.figures[name], _baseline(known, kind, name)
        if value is not None and before is not None and value > before * (1 + _GROWTH):
            more = f"{100 * (value / before - 1):.1f} % more than" if before else "and had"
            worse[kind] = f"{words} {value:,} bytes, {more} {before:,.0f} before"
    value, before = entry.figures["kernels"], _baseline(known, "operators", "kernels")
    if value is not None and before is not None and value > before:
        worse["operators"] = f"kernels compute {value:,} operators, and {before:,.0f} before"
    if entry.time and entry.time["runs"] >= FEWEST:
        slower = _slower(known, entry)
        if slower:
            worse["time"] = slower
    return worse


def _baseline(known: Sequence[Entry], kind: str, name: str) -> float | None:
    values = [earlier.figures[name] for earlier in known if kind not in earlier.regressed]
    numbers = [value for value in values if value is not None][-_BASELINE:]
    return statistics.median(numbers) if numbers else None


def _slower(known: Sequence[Entry], entry: Entry) -> str | None:
    time = entry.time or {}
    here = [row.time for row in known if row.time and "time" not in row.regressed and row.processor == entry.processor]
    same = [row for row in here if (row["method"], row["threads"]) == (time["method"], time["threads"])][-_BASELINE:]
    if not same:
        return None
    before = statistics.median(row["median_ms"] for row in same)
    if time["median_ms"] <= before * (1 + NOTICEABLE) or time["low_ms"] <= max(row["high_ms"] for row in same):
        return None
    return (
        f"a run takes {time['median_ms']:.3f} ms, {100 * (time['median_ms'] / before - 1):.1f} % longer than "
        f"{before:.3f} ms before, beyond the noise of {len(same)} entries"
    )


def history_text(history: Sequence[Entry], file: str, top: int = 20) -> str:
    """Format the last entries of a file as a table, with a bar for the time, or for the size if no entry has a time."""
    rows = [entry for entry in history if entry.file == file][-top:]
    timed = any(row.time for row in rows)
    medians = [row.time["median_ms"] if row.time else 0.0 for row in rows]
    values = medians if timed else [float(row.figures["file_bytes"] or 0) for row in rows]
    most = max(values, default=0) or 1
    width = min(max([5, *(len(row.label) for row in rows)]), 24)
    lines = [
        f"{'label':<{width}}  {'date':<10} {'file bytes':>12} {'arenas':>11} {'kernels':>7} {'median ms':>10} {'+-':>7}"
    ]
    for row, value in zip(rows, values, strict=True):
        median, spread = "-", ""
        if row.time:
            median, spread = f"{row.time['median_ms']:.3f}", f"{(row.time['high_ms'] - row.time['low_ms']) / 2:.3f}"
        sizes = [
            f"{size:,}" if (size := row.figures[name]) is not None else "?" for name in ("file_bytes", "planned_bytes")
        ]
        worse = f" worse: {', '.join(row.regressed)}" if row.regressed else " new baseline" if row.accepted else ""
        lines.append(
            f"{row.label[:width]:<{width}}  {row.date[:10]:<10} {sizes[0]:>12} {sizes[1]:>11} "
            f"{row.figures['kernels']!s:>7} {median:>10} {spread:>7}  {'#' * round(20 * value / most)}{worse}".rstrip()
        )
    return join_lines(lines)
