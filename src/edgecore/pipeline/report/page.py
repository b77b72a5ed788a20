"""Make the HTML page of a delegation report."""

from __future__ import annotations

from collections import Counter
from typing import Any

from edgecore.html import arena, page, table
from edgecore.numerics.decibels import decibels, finite_decibels
from edgecore.pipeline.report.delegation import DelegationReport, ReportRow, join_reasons
from edgecore.pipeline.report.memory import ArenaReport

_LISTED = 8
"""Number of lines of a list in the summary; the tables have all."""


def report_page(report: DelegationReport) -> str:
    """Return the page of a report."""
    content = {
        "facts": _facts(report),
        "warnings": [
            f"{failure.sentence} ({failure.operators} operators run elsewhere)" for failure in report.failures
        ],
        "bars": _bars(report),
        "sections": _sections(report),
        "operators": [_operator(row) for row in report.rows],
        "operatorTable": _operator_table(report) if report.rows else None,
        "graph": _graph(report),
        "memory": [_arena(arena) for arena in report.memory if arena.boxes],
        "accuracy": _accuracy(report),
        "tables": [made for made in _tables(report) if made["rows"]],
    }
    return page("Delegation report", content)


def _facts(report: DelegationReport) -> list[tuple[str, str]]:
    outside, total = len(report.left_outside), len(report.rows)
    delegates = ", ".join(f"{count} x {name}" for name, count in report.delegates.items()) or "none"
    facts = [
        ("delegated", f"{total - outside} of {total} operators"),
        ("delegates", delegates),
        *((f"memory of {arena.method}, {arena.name}", arena.figures) for arena in report.memory),
    ]
    layers = report.quantization
    if layers:
        facts.append(("quantization", f"SQNR {decibels(layers[0].sqnr)} to {decibels(layers[-1].sqnr)}"))
    return facts + [(name, line) for name, lines in report.sections.items() for line in lines]


def _bars(report: DelegationReport) -> list[dict[str, Any]]:
    """For each method, return the number of operators by backend, with edgecore's kernels last."""
    bars = []
    for method in dict.fromkeys(row.method for row in report.rows):
        counts = Counter(row.where for row in report.rows if row.method == method)
        parts = sorted(counts.items(), key=lambda part: (part[0] == "edgecore", -part[1]))
        bars.append({"title": f"Operators of {method} by backend", "parts": parts})
    return bars


def _sections(report: DelegationReport) -> list[dict[str, Any]]:
    """Return the lists of the summary: why operators are not delegated, the worst layers, and the precision."""
    worst = [str(layer) for layer in (report.quantization or ())[:_LISTED]]
    lists = {
        "Not delegated, and why": report.outside_lines(),
        "Mutable buffers": report.buffer_lines(),
        "Layers with the lowest SQNR": worst,
        "Precision": report.unheld,
    }
    return [{"title": title, "lines": _first(lines)} for title, lines in lists.items() if lines]


def _first(lines: list[str]) -> list[str]:
    rest = len(lines) - _LISTED
    return lines if rest <= 0 else [*lines[:_LISTED], f"{rest} more under Details"]


def _operator(row: ReportRow) -> dict[str, Any]:
    return {
        "name": row.node,
        "operator": row.operator,
        "module": row.module,
        "backend": row.where,
        "line": row.source,
        "node": _id(row.method, row.node),
        "partition": _partition(row),
        "shape": row.shape,
        "why": row.why,
    }


def _operator_table(report: DelegationReport) -> dict[str, Any]:
    rows = [
        (
            *(row.operator, row.where, _partition(row), row.module, row.shape, row.source, row.node, row.method),
            row.why,
        )
        for row in report.rows
    ]
    columns = ["operator", "@runs on", "partition", "module", "=result", "source", "node", "method"]
    marked = [index for index, row in enumerate(report.rows) if row.where == "edgecore"]
    return table("All operators", [*columns, "not delegated because"], rows, marked=marked, linked=True)


def _graph(report: DelegationReport) -> list[dict[str, Any]]:
    """Return the inputs of the methods and the calls as the part "graph" of a page.

    Quantizations and dequantizations inside a delegate are not drawn: a backend fuses most of them into the layers
    beside them, and a quantized network has several for each layer. Their lines lead to the inputs of the first:
    `conv -> quantize -> dequantize -> relu` becomes `conv -> relu`.
    """
    nodes: dict[str, dict[str, Any]] = {}
    calls = {(row.method, row.node) for row in report.rows}
    hidden: dict[tuple[str, str], list[str]] = {}  # names of the drawn nodes that a hidden node reads
    for row in report.rows:
        names = [drawn for name in row.inputs for drawn in hidden.get((row.method, name), [name])]
        if row.where != "edgecore" and _short(row.operator).startswith(("quantize_", "dequantize_")):
            hidden[row.method, row.node] = names
            continue
        inputs = {_id(row.method, name): name for name in names}
        for key, name in inputs.items():
            if (row.method, name) not in calls:
                nodes.setdefault(key, _node(key, operator=name))
        nodes[_id(row.method, row.node)] = _node(
            _id(row.method, row.node),
            operator=_short(row.operator),
            module=row.module,
            line=row.source,
            backend=row.where,
            partition=row.partition,
            shape=row.shape,
            inputs=list(inputs),
        )
    return list(nodes.values())


def _node(key: str, **facts: Any) -> dict[str, Any]:
    empty: dict[str, Any] = dict(module="", line="", handles=[], backend="", partition=None, shape="", inputs=[])
    return {"id": key, **empty, **facts}


def _accuracy(report: DelegationReport) -> dict[str, Any] | None:
    """Return the SQNR of each layer in the order of their modules as the part "accuracy" of a page.

    Lowering renames nodes, so that only the module says where a layer runs.
    """
    place: dict[tuple[str, str], int] = {}
    where: dict[tuple[str, str], dict[str, None]] = {}
    for index, row in enumerate(report.rows):
        place.setdefault((row.method, row.module), index)
        where.setdefault((row.method, row.module), {})[row.where] = None
    layers = sorted(report.quantization or (), key=lambda layer: place.get((layer.method, layer.module), -1))
    if not layers:
        return None
    rows = [
        {
            "module": layer.module,
            "operator": layer.operator,
            "line": layer.source,
            "backend": ", ".join(where.get((layer.method, layer.module), ())),
            "local": finite_decibels(layer.sqnr),
            "accumulated": finite_decibels(layer.inputs_sqnr),
            "wrong": False,
            "why": "",
        }
        for layer in layers
    ]
    note = (
        "Dots are the result of each layer against the float program, the line is its inputs: a dot far below the line "
        "is a layer that loses accuracy."
    )
    words = {"own": "result", "whole": "inputs", "title": "Layers by module", "note": note}
    return {"rows": rows, "culprit": None, **words}


def _tables(report: DelegationReport) -> list[dict[str, Any]]:
    groups = [(len(rows), rows[0].operator, rows[0].why) for rows in report.outside_groups()]
    buffers = [
        (row.name, row.bytes, row.where, ", ".join(row.methods), join_reasons(row.reasons)) for row in report.buffers
    ]
    # fmt: off
    layers = [
        (row.method, row.module, row.operator, row.node, row.scheme, decibels(row.sqnr), decibels(row.inputs_sqnr),
         row.source)
        for row in report.quantization or ()
    ]
    # fmt: on
    note = (
        "The signal to quantization noise ratio (SQNR) of each layer's result, compared with the float program on one "
        "sample; worst first. It includes the losses of earlier layers: a layer adds a loss of its own if its SQNR is "
        "below that of its inputs."
    )
    # fmt: off
    return [
        table("Not delegated", ["#calls", "operator", "not delegated because"], groups),
        table("Mutable buffers", ["buffer", "#bytes", "@held by", "methods", "not held because"], buffers),
        table("Quantization", ["method", "module", "operator", "node", "scheme", "SQNR", "of its inputs", "source"],
              layers, note),
        table("Memory", ["method", "arena", "#bytes", "#lower bound, bytes", "#tensors", "#tensors in their memory"],
              [(row.method, row.name, row.size, row.bound, len(row.boxes), row.shared) for row in report.memory]),
    ]
    # fmt: on


def _short(operator: str) -> str:
    """Return `add` for `aten.add.Tensor`."""
    parts = operator.split(".")
    return parts[1] if len(parts) > 1 else operator


def _id(method: str, node: str) -> str:
    return f"{method}/{node}"


def _partition(row: ReportRow) -> str:
    return "" if row.partition is None else f"number {row.partition}"


def _arena(report: ArenaReport) -> dict[str, Any]:
    tensors = [
        (", ".join(box.nodes), "", "", box.offset, box.size, box.first, box.last) for box in report.boxes if box.size
    ]
    return arena(f"{report.method}, {report.name}", report.steps, tensors, unit="step")
