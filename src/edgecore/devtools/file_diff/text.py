"""The text of a comparison of two files, which has at most 40 lines."""

from __future__ import annotations

from typing import Any

from edgecore.devtools.file_diff.differences import Differences
from edgecore.devtools.file_diff.time import FEWEST
from edgecore.devtools.graph import kernel_name
from edgecore.devtools.printable import join_lines
from edgecore.devtools.profiling import short_operator
from edgecore.numerics.decibels import decibels

_ROWS = 4
"""Rows of a section; the JSON has all of them."""
_WIDTH = 118


def diff_text(diff: Differences) -> str:
    """Return the text of a comparison."""
    nothing = "identical" if diff.identical else "nothing that is compared differs, but some bytes do"
    names = diff.different()
    lines = [f"{diff.a} -> {diff.b}: " + (f"{', '.join(names)} changed" if names else nothing)]
    for title, *rows in sections(diff):
        shown = rows if len(rows) <= _ROWS else [*rows[: _ROWS - 1], f"and {len(rows) - _ROWS + 1} more"]
        lines += [title, *(f"  {row}" for row in shown)]
    return join_lines(line if len(line) <= _WIDTH else line[: _WIDTH - 3] + "..." for line in lines)


def sections(diff: Differences) -> list[list[str]]:
    """Return the parts of a comparison, each a title and its rows."""
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
    found = diff.signature
    if not found["different"]:
        return ["signature: same"]
    rows = [f"method {name}: only in {diff.a}" for name in found["only"]["a"]]
    rows += [f"method {name}: only in {diff.b}" for name in found["only"]["b"]]
    rows += [f"{one['method']} {one['kind']} {one['index']}: {one['a'] or 'none'} -> {one['b'] or 'none'}"
             for one in found["changed"]]  # fmt: skip
    return ["signature:", *rows]


def _operators(diff: Differences) -> list[str]:
    found = diff.operators
    blobs = [", ".join(f"{count} {name}" for name, count in found["delegates"][key].items()) or "none" for key in "ab"]
    placed = f"delegates {blobs[0]}" + (f" -> {blobs[1]}" if blobs[0] != blobs[1] else "")
    if found["unknown"]:
        return [f"operators: not compared, since the delegates of {' and '.join(found['unknown'])} are unknown",
                placed]  # fmt: skip
    rows = [f"moved: {_name(one)}: {one['a']} -> {one['b']}" for one in found["moved"]]
    rows += [f"changed: {_name(one)}: {', '.join(one['a'])} -> {', '.join(one['b'])}" for one in found["changed"]]
    rows += [f"gone: {_name(one)} ({one['backend']})" for one in found["gone"]]
    rows += [f"added: {_name(one)} ({one['backend']})" for one in found["added"]]
    counts = ", ".join(f"{len(found[key])} {key}" for key in ("moved", "changed", "gone", "added"))
    return [f"operators: {_change(found['count']['a'], found['count']['b'])}: {counts}; {placed}", *rows]


def _name(one: dict[str, Any]) -> str:
    operator = one["operator"]
    name = kernel_name(operator) if "::" in operator else short_operator(operator)
    number = f" #{one['ordinal']}" if one["ordinal"] else ""
    line = f" ({one['source'].rpartition('/')[2]})" if one["source"] else ""
    return f"{one['module'] or '(the model itself)'} {name}{number}{line}"


def _weights(diff: Differences) -> list[str]:
    found = diff.weights
    rows = []
    for one in found["changed"]:
        if one["max_abs"] is not None:
            noise = "" if one["sqnr_db"] is None else f", {decibels(one['sqnr_db'])}"
            rows.append(f"changed: {_short(one['name'])}: by at most {one['max_abs']:.4g}{noise}")
        else:
            forms = [f"{form_of(one[key])}" for key in "ab"]
            rows.append(
                f"changed: {_short(one['name'])}: " + (" -> ".join(forms) if forms[0] != forms[1] else forms[0])
            )
    rows += [
        f"moved: {_short(one['name'])}: {one['a']} -> {one['b']}, {one['bytes']:,} bytes" for one in found["moved"]
    ]
    for key in ("gone", "added"):
        rows += [f"{key}: {_short(one['name'])}: {form_of(one)}" for one in found[key]]
    rows += [f"unknown: {_short(name)} is in a .ptd that was not given" for name in found["unknown"]]
    counts = ", ".join(f"{len(found[key])} {key}" for key in ("changed", "moved", "gone", "added"))
    return [f"weights: {found['equal']} equal, {counts}", *rows]


def form_of(one: dict[str, Any]) -> str:
    """Return dtype and sizes of a weight; of data of a delegate its bytes."""
    return f"{one['dtype']} {one['shape']}" if one["dtype"] else f"{one['bytes']:,} bytes of a delegate"


def _short(name: str) -> str:
    """Return a name; of a hash its first digits."""
    return f"{name[:12]}..." if len(name) == 64 and not set(name) - set("0123456789abcdef") else name


def _memory(diff: Differences) -> list[str]:
    rows = []
    for one in diff.memory["methods"]:
        if not one["different"]:
            continue
        a, b = one["a"], one["b"]
        if (a["arenas"], a["peak"]) != (b["arenas"], b["peak"]):
            owners = ", ".join(f"{row['name']} {row['bytes']:,}" for row in b["owners"][:2]) or "nothing"
            rows.append(f"{one['method']}: arenas {_change(sum(a['arenas']), sum(b['arenas']))} bytes, peak "
                        f"{_change(a['peak'], b['peak'])}: {owners}")  # fmt: skip
        if a["delegates"] is None or b["delegates"] is None:
            rows.append(f"{one['method']}: what delegates need is unknown")
            continue
        for backend in dict.fromkeys([*a["delegates"], *b["delegates"]]):
            needs = [sum(side["delegates"].get(backend, {}).values()) for side in (a, b)]
            if needs[0] != needs[1]:
                rows.append(f"{one['method']}: {backend} declares {_change(*needs)} bytes")
    return ["memory:", *rows] if rows else ["memory: same"]


def _time(diff: Differences) -> list[str]:
    found = diff.time
    if found is None:
        return ["time: not measured; --runs N or --trace A.etdp B.etdp compares it"]
    interval = f"fewer than {FEWEST} runs"
    if found["interval"]:
        low, high = (f"{100 * bound:+.1f}" for bound in found["interval"])
        interval = f"95 % interval {low} to {high} %"
    figures = f"{found['a']['median_ms']:.3f} -> {found['b']['median_ms']:.3f} ms"
    change = f"{100 * found['difference']:+.1f} %, {interval}"
    rows = [f"{row['module']}: {row['a_ms'] or 0:.3f} -> {row['b_ms'] or 0:.3f} ms" for row in found["modules"]]
    return [f"time: {found['verdict']}: {figures} ({change}; {found['how']})", *rows]
