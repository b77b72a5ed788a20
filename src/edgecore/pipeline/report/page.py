"""Make the HTML page of a delegation report."""

from __future__ import annotations

from typing import Any

from edgecore.html import arena, page, table
from edgecore.numerics.decibels import decibels
from edgecore.pipeline.report.delegation import DelegationReport
from edgecore.pipeline.report.memory import ArenaReport


def report_page(report: DelegationReport) -> str:
    """Return the page of a report."""
    outside = len(report.left_outside)
    delegates = ", ".join(f"{count} x {name}" for name, count in report.delegates.items()) or "none"
    content = {
        "facts": [
            ("delegates", delegates),
            ("delegated", f"{len(report.rows) - outside} of {len(report.rows)} operators"),
            *((f"memory of {arena.method}, {arena.name}", f"{arena.size:,} bytes") for arena in report.memory),
            *((name, line) for name, lines in report.sections.items() for line in lines),
        ],
        "warnings": [
            f"{failure.sentence} ({failure.operators} operators run elsewhere)" for failure in report.failures
        ],
        "tables": [made for made in _tables(report) if made["rows"]],
        "memory": [_arena(arena) for arena in report.memory if arena.boxes],
    }
    return page("Delegation report", content)


def _tables(report: DelegationReport) -> list[dict[str, Any]]:
    groups = [(len(rows), rows[0].operator, _reasons(rows[0].reasons)) for rows in report.outside_groups()]
    buffers = [
        (row.name, row.bytes, row.where, ", ".join(row.methods), _reasons(row.reasons, "")) for row in report.buffers
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
    calls = [
        (
            *(row.operator, row.node, row.where, row.module, row.source, row.method),
            _reasons(row.reasons) if row.where == "edgecore" else "",
        )
        for row in report.rows
    ]
    marked = [index for index, row in enumerate(report.rows) if row.where == "edgecore"]
    # fmt: off
    return [
        table("Not delegated", ["#calls", "operator", "not delegated because"], groups),
        table("Mutable buffers", ["buffer", "#bytes", "held by", "methods", "not held because"], buffers),
        table("Quantization", ["method", "module", "operator", "node", "scheme", "SQNR", "of its inputs", "source"],
              layers, note),
        table("All operators", ["operator", "node", "runs on", "module", "source", "method", "not delegated because"],
              calls, marked=marked),
    ]
    # fmt: on


def _reasons(reasons: tuple[tuple[str, str], ...], nothing: str = "no backend was asked") -> str:
    return "; ".join(f"{backend}: {reason}" for backend, reason in reasons) or nothing


def _arena(report: ArenaReport) -> dict[str, Any]:
    tensors = [
        (", ".join(box.nodes), "", "", box.offset, box.size, box.first, box.last) for box in report.boxes if box.size
    ]
    return arena(f"{report.method}, {report.name}", report.steps, tensors)
