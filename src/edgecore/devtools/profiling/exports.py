"""Convert traces to the formats of other tools: Chrome, Perfetto and speedscope."""

from __future__ import annotations

from typing import Any

from edgecore.devtools.profiling.summary import operators
from edgecore.devtools.profiling.trace import Run, Trace, TraceEvent

SPEEDSCOPE = "https://www.speedscope.app/file-format-schema.json"


def chrome_trace(trace: Trace, name: str = "model") -> dict[str, Any]:
    """Return a trace in Chrome's JSON format, which chrome://tracing, ui.perfetto.dev and speedscope.app read.

    Args:
        trace: The trace; its times must be nanoseconds.
        name: Name of the process.

    Returns:
        The value to pass to `json.dump`.
    """
    blocks = [*trace.others, *trace.runs]
    zero = min((event.start for block in blocks for event in block.events if event.placed), default=0)
    events: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": name}},
        {"name": "thread_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": "runs"}},
    ]
    for block in blocks:
        for event in block.events:
            if event.placed:
                thread = 2 + int(event.name.split()[1]) if event.kind == "thread" else 1
                row = {
                    "name": _name(block, event),
                    "cat": event.backend or event.kind,
                    "ph": "X",
                    "pid": 1,
                    "tid": thread,
                }
                row |= {"ts": (event.start - zero) / 1000, "dur": event.duration / 1000, "args": _facts(event)}
                events.append(row)
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def speedscope(trace: Trace, name: str = "model") -> dict[str, Any]:
    """Return a trace in the JSON format of speedscope.app, with one profile per run.

    Args:
        trace: The trace; its times must be nanoseconds.
        name: Name of the file.

    Returns:
        The value to pass to `json.dump`.
    """
    frames: dict[tuple[str, str], int] = {}
    profiles = []
    for index, run in enumerate(trace.runs):
        whole = run.execution
        if whole is None:
            continue
        events: list[dict[str, Any]] = []
        stack: list[tuple[TraceEvent, int, int]] = []
        now = whole.start
        for event in run.events:
            if event.parent is None and event is not whole:
                continue
            while stack and stack[-1][0] is not event.parent:
                now = _close(events, stack, now)
            source = next((origin.source for origin in event.origins if origin.source), "")
            frame = frames.setdefault((_name(run, event), source), len(frames))
            start = max(event.start, now)  # clip the event: speedscope rejects overlapping events
            end = min(max(event.end, start), stack[-1][2]) if stack else max(event.end, start)
            start = min(start, end)
            events.append({"type": "O", "frame": frame, "at": start - whole.start})
            stack.append((event, frame, end))
            now = start
        while stack:
            now = _close(events, stack, now)
        for item in events:
            if item["type"] == "C":
                item["at"] -= whole.start
        profile = {"type": "evented", "name": f"run {index + 1}", "unit": "nanoseconds", "startValue": 0}
        profiles.append({**profile, "endValue": whole.duration, "events": events})
    shared = {"frames": [_frame(*key) for key in frames]}
    return {"$schema": SPEEDSCOPE, "name": name, "exporter": "edgecore", "shared": shared, "profiles": profiles}


def _close(events: list[dict[str, Any]], stack: list[tuple[TraceEvent, int, int]], now: int) -> int:
    _, frame, end = stack.pop()
    now = max(now, end)
    events.append({"type": "C", "frame": frame, "at": now})
    return now


def _frame(name: str, source: str) -> dict[str, Any]:
    file, _, line = source.rpartition(":")
    return {"name": name, "file": file, "line": int(line)} if file and line.isdecimal() else {"name": name}


def _name(run: Run, event: TraceEvent) -> str:
    if event.kind == "run":
        return run.method or "run"
    if event.kind == "delegate":
        return event.backend or event.name
    return operators(event.origins) if event.origins else event.name


def _facts(event: TraceEvent) -> dict[str, Any]:
    facts: dict[str, Any] = {"event": event.name, "kernel": event.kernel, "instruction": event.instruction}
    if event.origins and event.kind != "delegate":
        facts["modules"] = list(dict.fromkeys(origin.module for origin in event.origins))
        facts["lines"] = list(dict.fromkeys(origin.source for origin in event.origins if origin.source))
    return facts
