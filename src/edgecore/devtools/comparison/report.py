"""The result of `edgecore.devtools.compare`, shown as a table, a page or JSON; it can write operators as test cases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from edgecore.devtools.comparison.engine import Engine
from edgecore.devtools.comparison.extract import extract
from edgecore.devtools.comparison.rows import CompareOutput, CompareRow, Conditions, short_source
from edgecore.devtools.printable import join_lines
from edgecore.html import frame, page, table
from edgecore.ir.dialect.dtypes import dtype_name
from edgecore.numerics.decibels import decibels, finite_decibels
from edgecore.numerics.metrics import Difference

MARK = ">>"

_ORIGINS = {
    "inputs": "",
    "calibration": " of the calibration",
    "example": " (the example inputs; if they are random, they hide errors: pass real ones)",
}


@dataclass(frozen=True)
class CompareReport:
    """The result of a comparison. `print` shows it as a table.

    Attributes:
        rows: The operators, in graph order.
        outputs: The outputs.
        conditions: The backends, the samples, and the way in which values were read.
        engine: The engine that ran the model on the device and in PyTorch; `extract` needs it.
    """

    rows: Sequence[CompareRow]
    outputs: Sequence[CompareOutput]
    conditions: Conditions
    engine: Engine = field(repr=False, compare=False)

    @property
    def culprit(self) -> Culprit | None:
        """The first operator whose local error is larger than rounding explains; None if there is none."""
        row = next((row for row in self.rows if row.wrong), None)
        if row is None:
            return None
        return Culprit(**{column.name: getattr(row, column.name) for column in fields(row)}, report=self)

    def extract(self, row: CompareRow, folder: str | Path) -> list[Path]:
        """Write the operator of a row as a test case that the author of the backend can run.

        Args:
            row: The row.
            folder: The folder to write to; it is created if it does not exist. The files are the operator
                (`operator.pt2`), compiled with its inputs and expected output (`operator.bpte`), the device's values
                (`values.pt`), a script that runs them (`run.py`), and `README.txt`.

        Returns:
            The paths of these files.

        Raises:
            CompileError: The operator cannot be compiled on its own, or its inputs cannot be read from the device.
            WriteError: A file cannot be written.
        """
        return extract(self.engine, row, folder)

    @property
    def ok(self) -> bool:
        """True if no operator is wrong, and lowering has not changed the model."""
        return self.culprit is None and not self.conditions.lowering

    @property
    def accuracy(self) -> float:
        """The lowest SQNR in dB of the device's outputs against the float model's."""
        return min((row.of_device.sqnr for row in self.outputs), default=math.inf)

    @property
    def verdict(self) -> str:
        """The outcome of the comparison in one sentence."""
        if self.conditions.lowering:
            return f"lowering has changed the model, before any backend: {self.conditions.lowering}"
        culprit, wrong = self.culprit, sum(row.wrong for row in self.rows)
        if culprit is None and self.conditions.cut:
            return "no operator is wrong by more than rounding explains"
        if culprit is None:
            return "every operator that was seen computes what PyTorch computes, but for rounding"
        rest = f"; {wrong - 1} more after it" if wrong > 1 else ""
        return f"the first operator that is wrong: {culprit}{rest}"

    def table(self, top: int = 30, width: int = 120) -> str:
        """Return the report as text.

        Args:
            top: The number of rows to show, in graph order: wrong rows first of all, then those with the largest
                errors; 0 shows all rows.
            width: The number of columns to stay within, if the names are short enough.
        """
        return _text(self, top, width)

    def __str__(self) -> str:
        return self.table()

    def to_html(self, title: str = "Comparison") -> str:
        """Return the report as an HTML page that needs no other file and makes no request."""
        return _page(self, title)

    def _repr_html_(self) -> str:
        """Return the page for a notebook."""
        return frame(self.to_html())

    def as_dict(self) -> dict[str, Any]:
        """Return all figures for JSON. Infinite figures become None, but an SQNR of minus infinity becomes -1000."""
        culprit = self.culprit
        return {
            "ok": self.ok,
            "verdict": self.verdict,
            "accuracy": finite_decibels(self.accuracy),
            "way": self.conditions.way,
            "backends": list(self.conditions.backends),
            "device": self.conditions.device,
            "quantized": self.conditions.quantized,
            "samples": self.conditions.samples,
            "culprit": culprit and culprit.site.tap,
            "rows": [_row(row) for row in self.rows],
            "outputs": [
                {
                    "output": row.index,
                    "device_to_reference": _gap(row.own),
                    "device_to_float": _gap(row.of_device),
                    "reference_to_float": _gap(row.of_reference),
                }
                for row in self.outputs
            ],
        }


def _page(report: CompareReport, title: str) -> str:
    rows = [
        {
            "module": row.module,
            "operator": row.operator,
            "line": short_source(row.source),
            "backend": row.backend,
            "local": finite_decibels(row.local.sqnr),
            "accumulated": finite_decibels(row.accumulated.sqnr),
            "wrong": row.wrong,
            "why": row.judgement.why if row.wrong else "",
        }
        for row in report.rows
    ]
    outputs = [
        (str(row.index), decibels(row.own.sqnr), decibels(row.of_device.sqnr), decibels(row.of_reference.sqnr))
        for row in report.outputs
    ]
    columns = ["output", "device against PyTorch as compiled", "device against the float model", "PyTorch as compiled"]
    conditions = report.conditions
    worst = sorted(report.rows, key=lambda row: row.local.sqnr)[:5]
    lines = [
        f"{row.module or 'the model itself'}, {row.operator}: {decibels(row.local.sqnr)} alone, "
        f"{decibels(row.accumulated.sqnr)} since the input"
        for row in worst
    ]
    content = {
        "sections": [{"title": "Operators with the largest error of their own", "lines": lines}] if lines else [],
        "facts": [
            ("verdict", report.verdict),
            ("backends", ", ".join(conditions.backends) or "edgecore's kernels"),
            ("device", conditions.device or "this machine"),
            ("samples", str(conditions.samples)),
            ("outputs", f"SQNR against the float model {decibels(report.accuracy)}"),
            ("values come from", conditions.way),
        ],
        "accuracy": {
            "rows": rows,
            "culprit": next((at for at, row in enumerate(rows) if row["wrong"]), None),
            "own": "alone",
            "whole": "since the input",
            "title": "Operators in the order of execution",
            "note": "Dots are the error of each operator alone, on the inputs that it had on the device; the line is "
            "the error since the input of the model.",
        },
        "tables": [table("Outputs", columns, outputs)] if outputs else [],
    }
    return page(title, content)


@dataclass(frozen=True, kw_only=True)
class Culprit(CompareRow):
    """The row of the first wrong operator. `extract` writes the operator as a test case."""

    report: CompareReport = field(repr=False, compare=False)

    def extract(self, folder: str | Path) -> list[Path]:
        """Write the operator as a test case, as `CompareReport.extract` does, and return the paths of its files.

        Example:
            >>> report.culprit.extract("bug")
        """
        return self.report.extract(self, folder)


def _text(report: CompareReport, top: int, width: int) -> str:
    """Format the report: the conditions, the rows, the outputs and the verdict."""
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
            texts.append(f"device against float {_decibels(output.of_device.sqnr)}")
            texts.append(f"quantized PyTorch against float {_decibels(output.of_reference.sqnr)}")
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
    """Return the `top` rows with the largest errors and always the culprit, in graph order; 0 means all rows."""
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
        mark = MARK if culprit is not None and row.site == culprit.site else " >" if row.wrong else ""
        cells.append(
            [
                mark,
                row.module or "-",
                row.operator,
                short_source(row.source) or "-",
                row.backend,
                str(row.local),
                _decibels(row.accumulated.sqnr),
                *([_decibels(row.of_quantized), _decibels(row.of_device)] if is_quantized else []),
            ]
        )
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    over = sum(widths) + 2 * (len(widths) - 1) - width
    for column in (1, 2):  # only names of modules and operators are shortened
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


def _row(row: CompareRow) -> dict[str, Any]:
    return {
        "node": row.site.tap,
        "module": row.module,
        "operator": row.operator,
        "source": row.source,
        "backend": row.backend,
        "dtype": dtype_name(row.dtype),
        "shape": list(row.shape),
        "step": row.site.step,
        "accumulated": _gap(row.accumulated),
        "local": _gap(row.local),
        "quantized_to_float": row.of_quantized if row.of_quantized is None else finite_decibels(row.of_quantized),
        "device_to_float": row.of_device if row.of_device is None else finite_decibels(row.of_device),
        "wrong": row.wrong,
        "why": row.judgement.why if row.wrong else "",
    }


def _gap(gap: Difference) -> dict[str, Any]:
    return {
        "sqnr": finite_decibels(gap.sqnr),
        "largest": _number(gap.largest),
        "cosine": _number(gap.cosine),
        "differing": gap.differing,
        "steps": _number(gap.steps),
        "nans": gap.nans,
        "infinities": gap.infinities,
        "sample": gap.sample,
    }


def _number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _decibels(value: float | None) -> str:
    """Format an SQNR for a column; a dash stands for None."""
    return "-" if value is None else decibels(value)
