"""The data of the HTML pages of profiles and files, from which `edgecore.html` makes the pages."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgecore.devtools.describe import signature
from edgecore.devtools.graph import MethodGraph, graph_of
from edgecore.devtools.memory import Allocation, allocations
from edgecore.devtools.profiling import (
    KERNELS,
    NOTE,
    Run,
    TraceEvent,
    estimates,
    label,
    label_of_origins,
    middle,
    parts,
)
from edgecore.format import PteFile
from edgecore.html import arena, page, table

if TYPE_CHECKING:
    from edgecore.devtools.profiling import Profile


def profile_page(profile: Profile) -> str:
    """Return a profile as an HTML page."""
    runs = middle(profile.trace.runs)
    rows, place = _operators(runs)
    every = [run.duration for run in profile.trace.runs]
    shown = sorted(profile.trace.runs, key=lambda run: run.duration)[len(every) // 2]
    memory = memory_views(profile.pte, profile.method)
    spread = f"fastest {min(every) / 1e6:.3f} ms, slowest {max(every) / 1e6:.3f} ms"
    content = {
        "facts": [
            ("file", f"{profile.file}, method {profile.method}"),
            ("a run", f"median of {len(every)} runs {statistics.median(every) / 1e6:.3f} ms, {spread}"),
            *profile.conditions(),
            *((f"memory, {view['name']}", needs(view)) for view in memory),
        ],
        "warnings": _warnings(profile, runs),
        "runs": every,
        "operators": rows,
        "timeline": _timeline(shown, place),
        "graph": graph_rows(
            next(graph for graph in graph_of(profile.pte, blobs=True).methods if graph.name == profile.method)
        ),
        "memory": memory,
        "tables": estimate_tables(profile.pte, [profile.method]),
    }
    return page(f"{profile.file}, {profile.method}", content)


def file_page(facts: dict[str, Any], pte: PteFile) -> str:
    """Return a file as an HTML page.

    Args:
        facts: The result of `describe`, with the file's path as "file" and its size as "bytes".
        pte: The file.
    """
    made_by = [("made by", f"{facts['producer']} for {facts['profile']}")] if facts["producer"] else []
    sizes = [("size", f"{facts['bytes']:,} bytes, of which constants {facts['constant_bytes']:,}")]
    tables, arenas = [], []
    for method in facts["methods"]:
        name = method["name"]
        needs = f"planned memory {method['planned_bytes']:,} bytes"
        if method["delegate_bytes"] is not None:
            needs += f", declared by delegates {method['delegate_bytes']:,}"
        sizes.append((f"method {name}", needs))
        indexed: list[tuple[str, int, Any]] = [
            (kind[:-1], *pair) for kind in ("inputs", "outputs") for pair in enumerate(method[kind])
        ]
        values = [(f"{kind} {index}", value["name"] or "", signature(value)) for kind, index, value in indexed]
        tables.append(table(f"{name}: inputs and outputs", ["value", "name", "type"], values))
        delegates = [(row["backend_id"], row.get("made_by", "unknown"), row["bytes"]) for row in method["delegates"]]
        tables.append(table(f"{name}: delegates", ["backend", "made by", "#bytes"], delegates))
        operators = list(method["operators"].items())
        tables.append(table(f"{name}: operators on edgecore's kernels", ["operator", "#calls"], operators))
        arenas += [view | {"name": f"{name}, {view['name']}"} for view in memory_views(pte, name)]
    tables += estimate_tables(pte, [method["name"] for method in facts["methods"]])
    segments = [(part["kind"], part["offset"], part["bytes"]) for part in facts["segments"]]
    tables.append(table("Segments", ["content", "#offset", "#bytes"], segments))
    graphs = graph_of(pte, blobs=True).methods
    content: dict[str, Any] = {
        "facts": made_by + sizes,
        "tables": [section for section in tables if section["rows"]],
        "memory": arenas,
        "graph": graph_rows(graphs[0]) if len(graphs) == 1 else None,
    }
    return page(Path(facts["file"]).name, content)


def estimate_tables(pte: PteFile, methods: Sequence[str]) -> list[dict[str, Any]]:
    """Return a table of estimated cycles for each method with such estimates in the file."""
    tables = []
    for method in methods:
        labels = ("operator", "module", "line")
        rows: list[tuple[Any, ...]] = [
            (row.operation, *(label_of_origins(row.origins, by) for by in labels), row.backend, row.cycles)
            for row in estimates(pte, method)
        ]
        columns = ["operation", *labels, "backend", "#cycles"]
        if rows:
            total = f"{sum(row[-1] for row in rows):,} cycles in all, {NOTE}."
            tables.append(table(f"{method}: estimated cycles", columns, rows, total))
    return tables


def graph_rows(graph: MethodGraph) -> list[dict[str, Any]]:
    """Return the nodes of a method in the order of execution, each with the ids of the nodes whose values it reads.

    If the file names the operators inside a delegate, rows of these operators replace the row of the delegate call.
    """
    inputs = graph.sources
    partitions = {node.id: number for number, node in enumerate(one for one in graph.nodes if one.kind == "delegate")}
    inside: dict[str, list[str]] = {}
    for node in graph.nodes:
        if node.parent:
            inside.setdefault(node.parent, []).append(node.id)
    rows = []
    for node in graph.nodes:
        if node.id in inside:
            continue
        sources = inputs.get(node.id, [])
        if node.kind == "operator" and inside[node.parent][0] == node.id:
            # Show the delegate's inputs at its first operator: the file does not record which operator reads them.
            sources = inputs.get(node.parent, [])
        row = {
            "id": node.id,
            "operator": node.name,
            "module": node.module,
            "line": node.source,
            "handles": node.handles,
        }
        reads = [inside.get(source, [source])[-1] for source in sources]
        place = {"backend": node.backend, "partition": partitions.get(node.parent)}
        rows.append({**row, **place, "shape": ", ".join(node.outputs), "inputs": reads})
    return rows


def needs(view: dict[str, Any]) -> str:
    """Describe the size of an arena, and its largest tensor at the peak."""
    if not view["owners"]:
        return "0 bytes"
    names, size = view["owners"][0]
    return f"{view['bytes']:,} bytes; at the peak, instruction {view['peak']}, {names} takes {size:,} bytes"


def memory_views(pte: PteFile, method: str) -> list[dict[str, Any]]:
    """Return the arenas of a method, as `edgecore.html.page` expects them under the key "memory"."""
    rows = allocations(pte, method)
    steps = max((row.last for row in rows), default=0) + 1
    views = []
    for memory_id in sorted({row.memory_id for row in rows}):
        mine = [row for row in rows if row.memory_id == memory_id]
        views.append(arena(f"arena {memory_id}", steps, [_tensor(row) for row in mine]))
    return views


def _tensor(row: Allocation) -> tuple[str, str, str, int, int, int, int]:
    return row.name, row.module, row.source, row.offset, row.bytes, row.first, row.last


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
    return event.instruction, event.kind, event.name, event.kernel, event.operation


def node_of(run: Run, event: TraceEvent) -> str:
    """Return the id in `graph_of(..., blobs=True)` of the node that caused an event; empty if there is none."""
    if event.instruction < 0 or event.kind not in ("kernel", "operation"):
        return ""
    call = f"{run.method}/{event.instruction}"
    return call if event.operation is None else f"{call}/operation {event.operation}"


def _operators(runs: Sequence[Run]) -> tuple[list[dict[str, Any]], dict[tuple[Any, ...], int]]:
    """Return the page's rows of operators and times, and a map from an event's `_key` to its row's index."""
    times: dict[tuple[Any, ...], list[int]] = {}
    calls: dict[tuple[Any, ...], int] = {}
    first: dict[tuple[Any, ...], tuple[TraceEvent, str]] = {}
    node_ids: dict[tuple[Any, ...], str] = {}
    for index, run in enumerate(runs):
        for event, rest in parts(run):
            key = _key(event, rest)
            times.setdefault(key, [0] * len(runs))[index] += event.own
            calls[key] = calls.get(key, 0) + 1
            first.setdefault(key, (event, rest))
            node_ids.setdefault(key, "" if rest else node_of(run, event))
    rows = []
    for key, (event, rest) in first.items():
        mean, handles = round(statistics.fmean(times[key])), [] if rest else [origin.handle for origin in event.origins]
        figures: dict[str, Any] = {
            "calls": calls[key] / len(runs),
            "ns": mean,
            "min": min(times[key]),
            "max": max(times[key]),
        }
        figures |= {"rest": bool(rest), "instruction": event.instruction, "handles": handles, "node": node_ids[key]}
        empty = {"operator": "", "module": "", "backend": "", "line": "", "kernel": ""}
        words = empty if rest else {by: _known(event, by) for by in empty}
        rows.append({"name": rest or event.name, **words, **figures})
    return rows, {key: index for index, key in enumerate(first)}


def _known(event: TraceEvent, by: str) -> str:
    """Return an event's label by "backend", "kernel" or the like; empty if the page has its own text for it."""
    if by == "backend":
        return event.backend or KERNELS
    if by == "kernel":
        return event.kernel
    text = label(event, by) if event.origins else ""
    return "" if text == "(no line)" else text


def _timeline(run: Run, place: dict[tuple[Any, ...], int]) -> list[list[Any]]:
    """Return the events of a run as [row index of the operator, start, length, nesting level] for the page.

    An event that belongs to no row has the index -1 and its name as a fifth item. Threads have levels of their own
    below the nested events.
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
