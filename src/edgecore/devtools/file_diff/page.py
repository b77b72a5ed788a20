"""The page of a comparison of two files: operators with both times, where they run, memory and what else differs."""

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
"""Module, operators and number among equal ones of what an event computes: the same in both files."""
Place = tuple[str, str]
"""Module and operator of a node."""


@dataclass(slots=True)
class _Row:
    """The place, line and times of an operator in one file.

    Attributes:
        backend: Id of the backend, or "kernels".
        line: Line of the source.
        times: Nanoseconds in each run; empty if there is no trace.
        places: The nodes that it computes.
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
        traces: The runs of both, or None: then operators have no times.
        method: The method whose operators and memory are shown.
    """
    if traces:
        sides = [_traced(trace) for trace in traces]
    else:
        sides = [_placed(one for one in operators_of(pte) if one.method == method) for pte in programs]
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
            one for one in (
                table("Weights that differ", ["name", "change", "A", "B"], _weights(diff)),
                table("Inputs and outputs that differ", ["method", "value", "A", "B"],
                      [(one["method"], f"{one['kind']} {one['index']}", one["a"] or "none", one["b"] or "none")
                       for one in diff.signature["changed"]]),
            ) if one["rows"]
        ],
    }  # fmt: skip
    return page(f"{diff.a} and {diff.b}", content)


def _traced(trace: Trace) -> dict[Key, _Row]:
    """Return the times of a trace; what is no operator's has the module "" and a name in parentheses."""
    found: dict[Key, _Row] = {}
    for index, run in enumerate(trace.runs):
        counts: Counter[tuple[str, str]] = Counter()
        for event, rest in parts(run):
            module, name = ("", rest) if rest else (label(event, "module"), label(event, "operator"))
            number = 0 if rest else counts[module, name]
            counts[module, name] += 1
            row = found.get((module, name, number))
            if row is None:
                backend = "" if rest else event.backend or KERNELS
                row = found[module, name, number] = _Row(
                    backend, "" if rest else label_of_origins(event.origins, "line")
                )
                row.times = [0] * len(trace.runs)
                row.places = {(origin.module, origin.operator) for origin in event.origins} if not rest else set()
            row.times[index] += event.own
    return found


def _placed(operators: Iterable[Operator]) -> dict[Key, _Row]:
    """Return the operators of a file that nobody has timed."""
    found: dict[Key, _Row] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for one in operators:
        module = one.module or "(the model itself)"
        name = kernel_name(one.operator) if "::" in one.operator else short_operator(one.operator)
        key = (module, name, counts[module, name])
        found[key] = _Row(one.backend, one.source, places={(one.module, one.operator)})
        counts[module, name] += 1
    return found


def _compared(name: str, module: str, sides: Sequence[_Row | None], rest: bool) -> dict[str, Any]:
    """Return a row of the page: what is in both files has a difference, its interval and a verdict."""
    backends = [side.backend if side else "" for side in sides]
    times = [statistics.median(side.times) if side and side.times else None for side in sides]
    found: dict[str, Any] = {"difference": None, "interval": None, "verdict": ""}
    if all(times):
        found = difference(*(side.times for side in sides if side))
    elif None not in times:
        found["verdict"] = "cannot tell"  # too short for the clock
    elif None in sides:
        found["verdict"] = "only in " + ("B" if sides[0] is None else "A")
    known = next(side for side in sides if side)
    return {
        "name": name, "operator": name, "module": module, "line": known.line, "kernel": "", "handles": [], "node": "",
        "instruction": -1, "backend": "" if rest else " -> ".join(dict.fromkeys(one or "none" for one in backends)),
        "rest": rest, "ns": times[0] or times[1] or 0, "a": times[0], "b": times[1], **found,
    }  # fmt: skip


def _modules(keys: Sequence[Key], sides: Sequence[dict[Key, _Row]]) -> list[dict[str, Any]]:
    """Return a row for each module, with the indexes of its operators.

    What is only in one file counts for the module around it that is only in the other one: a backend that fuses a
    convolution with its activation names the module of both, and kernels those of each.
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
    """Return the module for which a module's operators count, given the modules of each file."""
    own, other = inside if module in inside[0] else inside[::-1]
    if module in other:
        return module
    parts = module.split(".")
    around = (".".join(parts[:count]) for count in range(len(parts) - 1, 0, -1))
    return next((one for one in around if one in other and one not in own), module)


def _placement(diff: Differences, method: str, members: dict[Place, list[int]]) -> list[dict[str, Any]]:
    """Return the operators of which the place or the arguments differ, with the indexes of their rows."""
    rows = []
    for kind in ("moved", "changed", "gone", "added"):
        for one in diff.operators[kind]:
            if one["method"] != method:
                continue
            a, b = {
                "moved": (one.get("a"), one.get("b")), "changed": (str(one.get("a")), str(one.get("b"))),
                "gone": (one.get("backend"), "none"), "added": ("none", one.get("backend")),
            }[kind]  # fmt: skip
            rows.append({
                "kind": kind, "module": one["module"], "operator": one["operator"], "line": one["source"], "a": a, "b": b,
                "members": members.get((one["module"], one["operator"]), []),
            })  # fmt: skip
    return rows


def _weights(diff: Differences) -> list[tuple[str, str, str, str]]:
    found = diff.weights
    rows = []
    for one in found["changed"]:
        error = "" if one["max_abs"] is None else f", by at most {one['max_abs']:.4g}"
        rows.append((one["name"], f"changed{error}", form_of(one["a"]), form_of(one["b"])))
    rows += [(one["name"], "moved", str(one["a"]), str(one["b"])) for one in found["moved"]]
    rows += [(one["name"], "gone", form_of(one), "") for one in found["gone"]]
    return rows + [(one["name"], "added", "", form_of(one)) for one in found["added"]]
