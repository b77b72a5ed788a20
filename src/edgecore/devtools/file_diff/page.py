"""The HTML page that compares two files: times and backends of operators, memory, and other differences."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgecore.devtools.file_diff.differences import Differences
from edgecore.devtools.file_diff.text import form_of, sections
from edgecore.devtools.file_diff.time import difference
from edgecore.devtools.graph import Operator, kernel_name, operators_of
from edgecore.devtools.pages import memory_views
from edgecore.devtools.profiling import KERNELS, Trace, label, label_of_origins, parts, short_operator
from edgecore.format import PteFile
from edgecore.html import page, table

Key = tuple[str, str, int]
"""Identity of a row in both files: (module, operators, number among the rows with equal module and operators)."""
Place = tuple[str, str]
"""Module and operator of a node, such as ("features.0", "aten.relu.default")."""


@dataclass(slots=True)
class _Row:
    """The backend, source line and times of one row of the page (one or more operators) in one file.

    Attributes:
        backend: Id of the backend, or "kernels".
        line: Line of the source.
        times: Nanoseconds in each run; empty if there is no trace.
        places: Module and operator of each operator in the row.
    """

    backend: str
    line: str
    times: list[int] = field(default_factory=list)
    places: set[Place] = field(default_factory=set)


def diff_page(diff: Differences, programs: Sequence[PteFile], traces: Sequence[Trace] | None, method: str) -> str:
    """Return a comparison as an HTML page.

    Args:
        diff: The comparison.
        programs: The programs of the two files.
        traces: The runs of both files; None for a page without times.
        method: The method whose operators and memory are shown.
    """
    if traces:
        sides = [_traced(trace) for trace in traces]
    else:
        sides = [_placed(row for row in operators_of(pte) if row.method == method) for pte in programs]
    keys = list(dict.fromkeys([*sides[0], *sides[1]]))
    rows = [
        _compared(key[1] + (f" #{key[2]}" if key[2] else ""), key[0], [side.get(key) for side in sides], not key[0])
        for key in keys
    ]
    members: dict[Place, list[int]] = {}
    for index, key in enumerate(keys):
        for place in {place for side in sides if key in side for place in side[key].places}:
            members.setdefault(place, []).append(index)
    content = {
        "facts": [("A", diff.a), ("B", diff.b), ("what differs", ", ".join(diff.different()) or "nothing")],
        "sections": [{"title": lines[0], "lines": lines[1:]} for lines in sections(diff)],
        "operators": rows,
        "compare": {"timed": bool(traces), "modules": _modules(keys, sides)},
        "placement": _placement(diff, method, members),
        "memory": [
            arena | {"name": f"{letter} ({name}): {arena['name']}"}
            for letter, name, pte in zip("AB", (diff.a, diff.b), programs, strict=True)
            if any(plan.name == method for plan in pte.program.execution_plan)
            for arena in memory_views(pte, method)
        ],
        "tables": [
            section
            for section in (
                table("Weights that differ", ["name", "change", "A", "B"], _weights(diff)),
                table("Inputs and outputs that differ", ["method", "value", "A", "B"], _arguments(diff)),
            )
            if section["rows"]
        ],
    }
    return page(f"{diff.a} and {diff.b}", content)


def _traced(trace: Trace) -> dict[Key, _Row]:
    """Return a trace's operators as rows. Time outside of operators has the module "" and a name in parentheses."""
    rows: dict[Key, _Row] = {}
    for index, run in enumerate(trace.runs):
        counts: Counter[tuple[str, str]] = Counter()
        for event, rest in parts(run):
            module, name = ("", rest) if rest else (label(event, "module"), label(event, "operator"))
            number = 0 if rest else counts[module, name]
            counts[module, name] += 1
            row = rows.get((module, name, number))
            if row is None:
                backend = "" if rest else event.backend or KERNELS
                row = rows[module, name, number] = _Row(
                    backend, "" if rest else label_of_origins(event.origins, "line")
                )
                row.times = [0] * len(trace.runs)
                row.places = {(origin.module, origin.operator) for origin in event.origins} if not rest else set()
            row.times[index] += event.own
    return rows


def _placed(operators: Iterable[Operator]) -> dict[Key, _Row]:
    """Return the operators of a file that has no trace as rows of the page, without times."""
    rows: dict[Key, _Row] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for row in operators:
        module = row.module or "(the model itself)"
        name = kernel_name(row.operator) if "::" in row.operator else short_operator(row.operator)
        key = (module, name, counts[module, name])
        rows[key] = _Row(row.backend, row.source, places={(row.module, row.operator)})
        counts[module, name] += 1
    return rows


def _compared(name: str, module: str, sides: Sequence[_Row | None], rest: bool) -> dict[str, Any]:
    """Return the page's row of one operator or module: the median time in each file, the difference and a verdict."""
    backends = [side.backend if side else "" for side in sides]
    times = [statistics.median(side.times) if side and side.times else None for side in sides]
    verdict: dict[str, Any] = {"difference": None, "interval": None, "verdict": ""}
    if all(times):
        verdict = difference(*(side.times for side in sides if side))
    elif None not in times:  # no ratio: a median time is 0 ns, because the run was too short for the clock
        verdict["verdict"] = "cannot tell"
    elif None in sides:
        verdict["verdict"] = "only in " + ("B" if sides[0] is None else "A")
    known = next(side for side in sides if side)
    return {
        "name": name,
        "operator": name,
        "module": module,
        "line": known.line,
        "kernel": "",
        "handles": [],
        "node": "",
        "instruction": -1,
        "backend": "" if rest else " -> ".join(dict.fromkeys(backend or "none" for backend in backends)),
        "rest": rest,
        "ns": times[0] or times[1] or 0,
        "a": times[0],
        "b": times[1],
        **verdict,
    }


def _modules(keys: Sequence[Key], sides: Sequence[dict[Key, _Row]]) -> list[dict[str, Any]]:
    """Return a row for each module, with the indexes of its operators.

    If only one file has a module, and only the other file has a module that encloses it, the operators count toward the
    enclosing module. For example, a backend that fuses a convolution with its activation names their common parent
    module, while kernels name the two inner modules.
    """
    members: dict[str, list[int]] = {}
    inside = [{module for module, _, _ in side} for side in sides]
    for index, (module, name, _) in enumerate(keys):
        members.setdefault(_shared_module(module, inside) or name, []).append(index)
    rows = []
    for module, indexes in members.items():
        sums: list[_Row | None] = []
        for side in sides:
            mine = [side[keys[index]] for index in indexes if keys[index] in side]
            times = [sum(values) for values in zip(*(row.times for row in mine), strict=True)]
            backends = "+".join(dict.fromkeys(row.backend for row in mine if row.backend))
            sums.append(_Row(backends, "", times) if mine else None)
        rows.append(_compared(module, "", sums, not keys[indexes[0]][0]) | {"members": indexes})
    return rows


def _shared_module(module: str, inside: Sequence[set[str]]) -> str:
    """Return `module` if both files have it, else the innermost module around it that only the other file has."""
    own, other = inside if module in inside[0] else inside[::-1]
    if module in other:
        return module
    parts = module.split(".")
    around = (".".join(parts[:count]) for count in range(len(parts) - 1, 0, -1))
    return next((outer for outer in around if outer in other and outer not in own), module)


def _placement(diff: Differences, method: str, members: dict[Place, list[int]]) -> list[dict[str, Any]]:
    """List the operators that only one file has, or whose backend or arguments changed, with their row indexes."""
    rows = []
    for kind in ("moved", "changed", "gone", "added"):
        for row in diff.operators[kind]:
            if row["method"] != method:
                continue
            if kind in ("moved", "changed"):
                a, b = (row[key] if kind == "moved" else str(row[key]) for key in "ab")
            else:
                a, b = (row["backend"], "none") if kind == "gone" else ("none", row["backend"])
            place = row["module"], row["operator"]
            texts = dict(zip(("module", "operator", "line"), (*place, row["source"]), strict=True))
            rows.append({"kind": kind, **texts, "a": a, "b": b, "members": members.get(place, [])})
    return rows


def _arguments(diff: Differences) -> list[tuple[str, str, str, str]]:
    rows = diff.signature["changed"]
    return [(row["method"], f"{row['kind']} {row['index']}", row["a"] or "none", row["b"] or "none") for row in rows]


def _weights(diff: Differences) -> list[tuple[str, str, str, str]]:
    section = diff.weights
    rows = []
    for weight in section["changed"]:
        error = "" if weight["max_abs"] is None else f", by at most {weight['max_abs']:.4g}"
        rows.append((weight["name"], f"changed{error}", form_of(weight["a"]), form_of(weight["b"])))
    rows += [(weight["name"], "moved", str(weight["a"]), str(weight["b"])) for weight in section["moved"]]
    rows += [(weight["name"], "gone", form_of(weight), "") for weight in section["gone"]]
    return rows + [(weight["name"], "added", "", form_of(weight)) for weight in section["added"]]
