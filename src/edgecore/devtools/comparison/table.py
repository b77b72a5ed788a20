"""The report of `edgecore.devtools.compare` as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgecore.devtools.comparison.report import MARK, CompareRow, short_source, sqnr_text
from edgecore.devtools.printable import join_lines

if TYPE_CHECKING:
    from edgecore.devtools.comparison.report import CompareReport

_ORIGINS = {
    "inputs": "",
    "calibration": " of the calibration",
    "example": " (the example inputs; if they are random, they hide errors: pass real ones)",
}


def table(report: CompareReport, top: int, width: int) -> str:
    """Return the report: what was compared, the rows, the outputs and the verdict."""
    conditions = report.conditions
    shown = _chosen(report.rows, top)
    lines = [_title(report), conditions.way, ""]
    if shown:
        lines += _columns(report, shown, width)
        if len(shown) < len(report.rows):
            lines.append(f"... {len(report.rows) - len(shown)} more operators, with smaller errors")
        lines.append("")
    reference = "quantized PyTorch" if conditions.quantized else "PyTorch"
    for output in report.outputs:
        texts = [f"output {output.index}: device against {reference} {output.own}"]
        if conditions.quantized:
            texts.append(f"device against float {sqnr_text(output.of_device.sqnr)}")
            texts.append(f"quantized PyTorch against float {sqnr_text(output.of_reference.sqnr)}")
        lines.append("; ".join(texts))
    lines.append(report.verdict)
    return join_lines(lines)


def _title(report: CompareReport) -> str:
    conditions = report.conditions
    backends = ", ".join(conditions.backends) or "edgecore's kernels"
    samples = "1 sample" if conditions.samples == 1 else f"{conditions.samples} samples"
    kind = "quantized, " if conditions.quantized else ""
    operators = "1 operator" if len(report.rows) == 1 else f"{len(report.rows)} operators"
    where = f" on {conditions.device}" if conditions.device else ""
    return f"{backends}{where} against PyTorch: {kind}{operators}, worst of {samples}{_ORIGINS[conditions.origin]}"


def _chosen(rows: Sequence[CompareRow], top: int) -> list[CompareRow]:
    """Return the rows to show, in the order of the model: those with the largest errors."""
    if not top or len(rows) <= top:
        return list(rows)
    ranked = sorted(rows, key=lambda row: (-row.judgement.ratio, row.local.sqnr, row.accumulated.sqnr))
    culprit = next((row for row in rows if row.wrong), None)
    kept = {row.site.tap for row in [*([culprit] if culprit else []), *ranked][:top]}
    return [row for row in rows if row.site.tap in kept]


def _columns(report: CompareReport, rows: Sequence[CompareRow], width: int) -> list[str]:
    is_quantized = report.conditions.quantized
    head = ["", "module", "operator", "line", "backend", "local error", "accumulated"]
    head += ["quantized", "device"] if is_quantized else []
    culprit = report.culprit
    cells = [head]
    for row in rows:
        mark = MARK if row is culprit else " >" if row.wrong else ""
        cells.append(
            [mark, row.module or "-", row.operator, short_source(row.source) or "-", row.backend, str(row.local),
             sqnr_text(row.accumulated.sqnr),
             *([sqnr_text(row.of_quantized), sqnr_text(row.of_device)] if is_quantized else [])]
        )  # fmt: skip
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    over = sum(widths) + 2 * (len(widths) - 1) - width
    for column in (1, 2):  # names of modules and operators can be shortened
        cutting = min(max(over, 0), max(widths[column] - 20, 0))
        widths[column] -= cutting
        over -= cutting
    return [_line(line, widths) for line in cells]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    parts = [
        ("..." + cell[len(cell) - size + 3 :] if column == 1 else cell[: size - 3] + "...")
        if len(cell) > size
        else cell
        for column, (cell, size) in enumerate(zip(cells, widths, strict=True))
    ]
    padded = [
        part.rjust(size) if column > 5 else part.ljust(size)
        for column, (part, size) in enumerate(zip(parts, widths, strict=True))
    ]
    return "  ".join(padded).rstrip()
