"""The results of a sweep: one row for each cell, as JSONL, as CSV, and as an object."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from edgecore.errors import EdgecoreError
from edgecore.files import write_files

SCHEMA = "edgecore.sweep.v1"
RESULTS = "results.jsonl"
Status = Literal["ok", "made", "skipped", "wrong", "failed"]


@dataclass(frozen=True)
class CellResult:
    """The result of one cell of a sweep: of one file, run with one number of threads. Unknown figures are None.

    Attributes:
        cell: Name of the cell: `model/backend/recipe/runtime/threads`.
        model: Name of the model.
        backend: Name of the backend.
        recipe: Name of the recipe.
        runtime: The target runtime.
        threads: Number of threads; 0 for edgecore's default.
        status: `ok`; `made` if there is a file, but this machine cannot run it, so that nothing was compared or
            measured; `skipped` if the recipe quantizes no layer of the model; `wrong` if the file breaks a rule of its
            runtime, or computes something else than PyTorch; `failed`.
        reason: One sentence that says why the cell is not `ok`; else empty.
        cached: True if no part of the cell was computed in this sweep.
        seconds: Time of the cell's processes when they ran.
        skip: The modules that `edgecore.search` left in floating point; None if no modules were searched for.
        file: The `.pte`; empty if there is none.
        report: Page that says where each operator runs; empty if there is none.
        file_bytes: Size of the file.
        planned_bytes: Size of the planned arenas of the method that needs most.
        delegate_bytes: Memory that delegates need.
        delegated: Share of the operators that delegates compute, from 0 to 1.
        delegates: Number of delegates.
        sqnr_db: Lowest SQNR in dB of an output on the example inputs against eager PyTorch; infinite for equal values.
        accuracy: The accuracy of the program, by the model's accuracy function.
        float_accuracy: The accuracy of the model in PyTorch.
        compile_seconds: Time of `edgecore.compile`.
        load_ms: Time of loading.
        first_ms: Time of the first run.
        median_ms: Median time of a run.
        p95_ms: 95th percentile of the times of runs.
        peak_rss_mb: Peak resident memory of the process that measured times, in MiB.
        cycles: Cycles of one run that the backend's compiler estimates for its device; then no times are measured.
    """

    cell: str
    model: str
    backend: str
    recipe: str
    runtime: str
    threads: int
    status: Status
    reason: str = ""
    cached: bool = False
    seconds: float = 0.0
    skip: Sequence[str] | None = None
    file: str = ""
    report: str = ""
    file_bytes: int | None = None
    planned_bytes: int | None = None
    delegate_bytes: int | None = None
    delegated: float | None = None
    delegates: int | None = None
    sqnr_db: float | None = None
    accuracy: float | None = None
    float_accuracy: float | None = None
    compile_seconds: float | None = None
    load_ms: float | None = None
    first_ms: float | None = None
    median_ms: float | None = None
    p95_ms: float | None = None
    peak_rss_mb: float | None = None
    cycles: int | None = None


GOOD = ("ok", "made", "skipped")
"""The statuses that do not count as failures."""
FIELDS = tuple(field.name for field in fields(CellResult))


@dataclass(frozen=True)
class SweepResult:
    """The result of a sweep.

    Attributes:
        rows: One result for each cell, in the order of the plan.
        folder: The folder with `results.jsonl`, `results.csv`, `index.html` and the files.
    """

    rows: Sequence[CellResult]
    folder: Path

    @property
    def ok(self) -> bool:
        """True if no cell has the status `wrong` or `failed`."""
        return all(row.status in GOOD for row in self.rows)

    def __str__(self) -> str:
        return table(self.rows)

    def _repr_html_(self) -> str:
        """Return the page for a notebook."""
        from edgecore.html import frame
        from edgecore.sweeps.results.page import sweep_page

        return frame(sweep_page(self.rows, self.folder.resolve().name))

    def save(self) -> None:
        """Write `results.jsonl`, `results.csv` and `index.html` into the folder.

        Raises:
            WriteError: A file cannot be written; then all files are unchanged.
        """
        from edgecore.sweeps.results.page import sweep_page

        html = sweep_page(self.rows, self.folder.resolve().name)
        texts = {RESULTS: jsonl(self.rows), "results.csv": csv_text(self.rows), "index.html": html}
        write_files({self.folder / name: text for name, text in texts.items()})


def jsonl(rows: Iterable[CellResult]) -> str:
    """Return results as lines of JSON; an infinite SQNR is the text "inf"."""
    return "".join(json.dumps({"schema": SCHEMA, **_plain(row)}, allow_nan=False) + "\n" for row in rows)


def _plain(row: CellResult) -> dict[str, Any]:
    return {
        key: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in asdict(row).items()
    }


def csv_text(rows: Iterable[CellResult]) -> str:
    """Return results as CSV: a line with the names of the fields, then a line for each cell."""
    text = io.StringIO()
    writer = csv.DictWriter(text, FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return text.getvalue()


def read_results(path: str | Path) -> list[CellResult]:
    """Read the results of a sweep.

    Args:
        path: The folder of the sweep, or its `results.jsonl`.

    Raises:
        EdgecoreError: There are no results, or a line is damaged.
    """
    file = Path(path)
    file = file / RESULTS if file.is_dir() else file
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise EdgecoreError(f"{file} cannot be read as the results of a sweep: {error}") from error
    return [_row(line, f"{file}, line {number}") for number, line in enumerate(lines, 1)]


def _row(line: str, place: str) -> CellResult:
    try:
        content = json.loads(line)
        if content.pop("schema") != SCHEMA:
            raise ValueError
        for name in ("sqnr_db", "accuracy", "float_accuracy"):
            if isinstance(content.get(name), str):
                content[name] = float(content[name])
        return CellResult(**content)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise EdgecoreError(f"{place} is no result of `edgecore sweep`; run the sweep again") from None


def table(rows: Sequence[CellResult]) -> str:
    """Return results as a table for a terminal."""
    from edgecore.devtools.printable import join_lines

    names = ("model", "backend", "recipe", "runtime", "threads")
    heads = (*names, "KiB", "arena KiB", "delegated", "SQNR dB", "accuracy", "median ms", "cycles", "")
    cells = [heads, *(_texts(row) for row in rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(heads))]
    left = 4
    pads = [str.ljust if index < left or index == len(heads) - 1 else str.rjust for index in range(len(heads))]
    return join_lines(
        "  ".join(pad(text, width) for pad, text, width in zip(pads, row, widths, strict=True)).rstrip()
        for row in cells
    )


def _texts(row: CellResult) -> tuple[str, ...]:
    def number(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    def kib(value: int | None) -> str:
        return "-" if value is None else f"{value / 1024:,.1f}"

    note = f"{row.status}: {row.reason}" if row.status != "ok" else "cached" if row.cached else ""
    names = (row.model, row.backend, row.recipe, row.runtime, str(row.threads or "default"))
    sizes = (kib(row.file_bytes), kib(row.planned_bytes), number(row.delegated, ".0%"))
    quality = (number(row.sqnr_db, ".1f"), number(row.accuracy, ".4g"))
    return (*names, *sizes, *quality, number(row.median_ms, ".3f"), number(row.cycles, ","), note)
