"""Contents of the pages of `edgecore.html`: profiles, and the memory of a file."""

from __future__ import annotations

import platform
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from edgecore.devtools.memory import Allocation, allocations
from edgecore.devtools.summary import KERNELS, label, middle, parts
from edgecore.devtools.trace import Run, TraceEvent
from edgecore.format import PteFile
from edgecore.html import arena, page

if TYPE_CHECKING:
    from edgecore.devtools.profiler import Profile


def profile_page(profile: Profile) -> str:
    """Return a profile as an HTML page."""
    runs = middle(profile.trace.runs)
    rows, place = _operators(runs)
    every = [run.duration for run in profile.trace.runs]
    shown = sorted(profile.trace.runs, key=lambda run: run.duration)[len(every) // 2]
    spread = f"fastest {min(every) / 1e6:.3f} ms, slowest {max(every) / 1e6:.3f} ms"
    content = {
        "facts": [
            ("file", f"{profile.file}, method {profile.method}"),
            ("a run", f"median of {len(every)} runs {statistics.median(every) / 1e6:.3f} ms, {spread}"),
            ("loading, first run", f"{profile.load_ms:.1f} ms, {profile.first_ms:.2f} ms"),
            ("threads", str(profile.threads or "chosen by the runtime")),
            ("machine", f"{platform.system()} {platform.machine()}"),
        ],
        "warnings": _warnings(profile, runs),
        "runs": every,
        "operators": rows,
        "timeline": _timeline(shown, place),
        "memory": memory_views(profile.pte, profile.method),
    }
    return page(f"{profile.file}, {profile.method}", content)


def memory_views(pte: PteFile, method: str) -> list[dict[str, Any]]:
    """Return the arenas of a method as `edgecore.html.page` shows them."""
    found = allocations(pte, method)
    steps = max((one.last for one in found), default=0) + 1
    views = []
    for memory_id in sorted({one.memory_id for one in found}):
        mine = [one for one in found if one.memory_id == memory_id]
        views.append(arena(f"arena {memory_id}", steps, [_tensor(one) for one in mine]))
    return views


def _tensor(one: Allocation) -> tuple[str, str, str, int, int, int, int]:
    return one.name, one.module, one.source, one.offset, one.bytes, one.first, one.last


def _warnings(profile: Profile, runs: Sequence[Run]) -> list[str]:
    warnings = []
    if profile.dropped:
        warnings.append(f"{profile.dropped} older runs are missing: the trace was full.")
    unplaced = sum(event.parent is None and not event.placed for run in runs for event in run.events)
    if unplaced:
        warnings.append(f"{unplaced} events have times of a clock of their own; no view shows them.")
    return warnings


def _key(event: TraceEvent, rest: str) -> tuple[Any, ...]:
    if rest:
        return (rest,)
    return event.instruction, event.kind, event.name, event.kernel, tuple(origin.handle for origin in event.origins)


def _operators(runs: Sequence[Run]) -> tuple[list[dict[str, Any]], dict[tuple[Any, ...], int]]:
    """Return the operators' rows with times per run, and their indexes by key."""
    times: dict[tuple[Any, ...], list[int]] = {}
    calls: dict[tuple[Any, ...], int] = {}
    first: dict[tuple[Any, ...], tuple[TraceEvent, str]] = {}
    for index, run in enumerate(runs):
        for event, rest in parts(run):
            key = _key(event, rest)
            times.setdefault(key, [0] * len(runs))[index] += event.own
            calls[key] = calls.get(key, 0) + 1
            first.setdefault(key, (event, rest))
    rows = []
    for key, (event, rest) in first.items():
        figures = {
            "calls": calls[key] / len(runs), "ns": round(statistics.fmean(times[key])), "min": min(times[key]),
            "max": max(times[key]), "rest": bool(rest), "instruction": event.instruction,
            "handles": [] if rest else [origin.handle for origin in event.origins],
        }  # fmt: skip
        empty = {"operator": "", "module": "", "backend": "", "line": "", "kernel": ""}
        words = empty if rest else {by: _known(event, by) for by in empty}
        rows.append({"name": rest or event.name, **words, **figures})
    return rows, {key: index for index, key in enumerate(first)}


def _known(event: TraceEvent, by: str) -> str:
    """Return the label of an event; empty if it has none, so that the page may say so in its own words."""
    if by == "backend":
        return event.backend or KERNELS
    if by == "kernel":
        return event.kernel
    text = label(event, by) if event.origins else ""
    return "" if text == "(no line)" else text


def _timeline(run: Run, place: dict[tuple[Any, ...], int]) -> list[list[Any]]:
    """Return the events of a run: index of the operator, start, length, level; -1 and a text for those of none.

    Each thread has a level of its own below those of the nested events.
    """
    whole = run.execution
    zero = whole.start if whole else 0
    rests = {id(event): rest for event, rest in parts(run)}
    nested = [event for event in run.events if event.placed and event.kind != "thread"]
    deepest = max(map(_level, nested), default=0)
    rows: list[list[Any]] = []
    for event in nested:
        rest = rests.get(id(event), "")
        index = -1 if rest or id(event) not in rests else place.get(_key(event, rest), -1)
        row: list[Any] = [index, event.start - zero, event.duration, _level(event)]
        rows.append(row if index >= 0 else [*row, run.method if event.kind == "run" else event.backend or event.name])
    for event in run.events:
        if event.kind == "thread":
            rows.append([-1, event.start - zero, event.duration, deepest + 1 + int(event.name.split()[1]), event.name])
    return rows


def _level(event: TraceEvent) -> int:
    level = 0
    while event.parent is not None:
        level, event = level + 1, event.parent
    return level
