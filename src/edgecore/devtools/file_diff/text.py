"""Format the comparison of two files as text of at most 40 lines."""

from __future__ import annotations

from typing import Any

from edgecore.devtools.file_diff.differences import Differences
from edgecore.devtools.file_diff.time import FEWEST
from edgecore.devtools.graph import kernel_name
from edgecore.devtools.printable import join_lines
from edgecore.devtools.profiling import short_operator
from edgecore.numerics.decibels import decibels

_ROWS = 4
"""Maximum number of rows that the text shows of each section; the JSON has all rows."""
_WIDTH = 118


def diff_text(diff: Differences) -> str:
    """Return the comparison of two files as text."""
    nothing = "identical" if diff.identical else "nothing that is compared differs, but some bytes do"
    names = diff.different()
    lines = [f"{diff.a} -> {diff.b}: " + (f"{', '.join(names)} changed" if names else nothing)]
    for title, *rows in sections(diff):
        shown = rows if len(rows) <= _ROWS else [*rows[: _ROWS - 1], f"and {len(rows) - _ROWS + 1} more"]
        lines += [title, *(f"  {row}" for row in shown)]
    return join_lines(line if len(line) <= _WIDTH else line[: _WIDTH - 3] + "..." for line in lines)


def sections(diff: Differences) -> list[list[str]]:
    """Format each section of a comparison as a list of the title and the rows."""
    return [part(diff) for part in (_size, _signature, _operators, _weights, _memory, _time)]


def _change(a: float, b: float) -> str:
    change = f"{100 * (b / a - 1):+.1f} %" if a and b < 10 * a else f"{b / a:,.0f} times" if a else ""
    return f"{a:,} -> {b:,}" + (f" ({change})" if change and a != b else "")


def _size(diff: Differences) -> list[str]:
    a, b = diff.size["a"], diff.size["b"]
    kinds = dict.fromkeys([*a["kinds"], *b["kinds"]])
    pairs = [(kind, a["kinds"].get(kind, 0), b["kinds"].get(kind, 0)) for kind in kinds]
    pairs = sorted((pair for pair in pairs if pair[1] != pair[2]), key=lambda pair: -abs(pair[2] - pair[1]))
    return [f"size: {_change(a['bytes'], b['bytes'])} bytes", *(f"{k}: {_change(x, y)}" for k, x, y in pairs)]


def _signature(diff: Differences) -> list[str]:
    section = diff.signature
    if not section["different"]:
        return ["signature: same"]
    rows = [f"method {name}: only in {diff.a}" for name in section["only"]["a"]]
    rows += [f"method {name}: only in {diff.b}" for name in section["only"]["b"]]
    for value in section["changed"]:
        place = f"{value['method']} {value['kind']} {value['index']}"
        rows.append(f"{place}: {value['a'] or 'none'} -> {value['b'] or 'none'}")
    return ["signature:", *rows]


def _operators(diff: Differences) -> list[str]:
    section = diff.operators
    blobs = [
        ", ".join(f"{count} {name}" for name, count in section["delegates"][key].items()) or "none" for key in "ab"
    ]
    placed = f"delegates {blobs[0]}" + (f" -> {blobs[1]}" if blobs[0] != blobs[1] else "")
    if section["unknown"]:
        return [
            f"operators: not compared, since the delegates of {' and '.join(section['unknown'])} are unknown",
            placed,
        ]
    rows = [f"moved: {_name(operator)}: {operator['a']} -> {operator['b']}" for operator in section["moved"]]
    rows += [
        f"changed: {_name(operator)}: {', '.join(operator['a'])} -> {', '.join(operator['b'])}"
        for operator in section["changed"]
    ]
    rows += [f"gone: {_name(operator)} ({operator['backend']})" for operator in section["gone"]]
    rows += [f"added: {_name(operator)} ({operator['backend']})" for operator in section["added"]]
    counts = ", ".join(f"{len(section[key])} {key}" for key in ("moved", "changed", "gone", "added"))
    return [f"operators: {_change(section['count']['a'], section['count']['b'])}: {counts}; {placed}", *rows]


def _name(row: dict[str, Any]) -> str:
    operator = row["operator"]
    name = kernel_name(operator) if "::" in operator else short_operator(operator)
    number = f" #{row['ordinal']}" if row["ordinal"] else ""
    line = f" ({row['source'].rpartition('/')[2]})" if row["source"] else ""
    return f"{row['module'] or '(the model itself)'} {name}{number}{line}"


def _weights(diff: Differences) -> list[str]:
    section = diff.weights
    rows = []
    for weight in section["changed"]:
        if weight["max_abs"] is not None:
            noise = "" if weight["sqnr_db"] is None else f", {decibels(weight['sqnr_db'])}"
            rows.append(f"changed: {_short(weight['name'])}: by at most {weight['max_abs']:.4g}{noise}")
        else:
            forms = [f"{form_of(weight[key])}" for key in "ab"]
            rows.append(
                f"changed: {_short(weight['name'])}: " + (" -> ".join(forms) if forms[0] != forms[1] else forms[0])
            )
    rows += [
        f"moved: {_short(weight['name'])}: {weight['a']} -> {weight['b']}, {weight['bytes']:,} bytes"
        for weight in section["moved"]
    ]
    for key in ("gone", "added"):
        rows += [f"{key}: {_short(weight['name'])}: {form_of(weight)}" for weight in section[key]]
    rows += [f"unknown: {_short(name)} is in a .ptd that was not given" for name in section["unknown"]]
    counts = ", ".join(f"{len(section[key])} {key}" for key in ("changed", "moved", "gone", "added"))
    return [f"weights: {section['equal']} equal, {counts}", *rows]


def form_of(weight: dict[str, Any]) -> str:
    """Format the dtype and shape of a weight, or the size of a delegate's data."""
    return f"{weight['dtype']} {weight['shape']}" if weight["dtype"] else f"{weight['bytes']:,} bytes of a delegate"


def _short(name: str) -> str:
    """Abbreviate a SHA-256 digest; return other names unchanged."""
    return f"{name[:12]}..." if len(name) == 64 and not set(name) - set("0123456789abcdef") else name


def _memory(diff: Differences) -> list[str]:
    rows = []
    for method in diff.memory["methods"]:
        if not method["different"]:
            continue
        a, b = method["a"], method["b"]
        if (a["arenas"], a["peak"]) != (b["arenas"], b["peak"]):
            owners = ", ".join(f"{row['name']} {row['bytes']:,}" for row in b["owners"][:2]) or "nothing"
            arenas, peak = _change(sum(a["arenas"]), sum(b["arenas"])), _change(a["peak"], b["peak"])
            rows.append(f"{method['method']}: arenas {arenas} bytes, peak {peak}: {owners}")
        if a["delegates"] is None or b["delegates"] is None:
            rows.append(f"{method['method']}: what delegates need is unknown")
            continue
        for backend in dict.fromkeys([*a["delegates"], *b["delegates"]]):
            needs = [sum(side["delegates"].get(backend, {}).values()) for side in (a, b)]
            if needs[0] != needs[1]:
                rows.append(f"{method['method']}: {backend} declares {_change(*needs)} bytes")
    return ["memory:", *rows] if rows else ["memory: same"]


def _time(diff: Differences) -> list[str]:
    section = diff.time
    if section is None:
        return ["time: not measured; --runs N or --trace A.etdp B.etdp compares it"]
    interval = f"fewer than {FEWEST} runs"
    if section["interval"]:
        low, high = (f"{100 * bound:+.1f}" for bound in section["interval"])
        interval = f"95 % interval {low} to {high} %"
    figures = f"{section['a']['median_ms']:.3f} -> {section['b']['median_ms']:.3f} ms"
    change = f"{100 * section['difference']:+.1f} %, {interval}"
    rows = [f"{row['module']}: {row['a_ms'] or 0:.3f} -> {row['b_ms'] or 0:.3f} ms" for row in section["modules"]]
    return [f"time: {section['verdict']}: {figures} ({change}; {section['how']})", *rows]
