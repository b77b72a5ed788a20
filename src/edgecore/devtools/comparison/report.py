"""The result of `edgecore.devtools.compare`: rows for operators and outputs, as objects, as a table and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import torch

from edgecore.devtools.comparison.eager import Group
from edgecore.devtools.comparison.metrics import Gap, Judgement, decibels
from edgecore.devtools.comparison.sites import Site
from edgecore.ir.dialect.dtypes import dtype_name

if TYPE_CHECKING:
    from edgecore.devtools.comparison.engine import Comparison

MARK = ">>"


@dataclass(frozen=True)
class CompareRow:
    """One operator, or several that the backend computes at once. Figures are those of the worst sample.

    Attributes:
        comparison: What the row belongs to; `extract` needs it.
        site: The place of the value.
        group: The nodes that compute it.
        dtype: The dtype of the value.
        shape: The shape of the value.
        accumulated: The error since the input of the model, against PyTorch as compiled (quantized, if it was).
        local: The error of this operator alone, against PyTorch on the inputs that it had on the device.
        judgement: The local error beside its limit.
        of_quantized: The SQNR of quantized PyTorch against the float model; None if the model was not quantized.
        of_device: The SQNR of the device against the float model; None if the model was not quantized.
    """

    comparison: Comparison = field(repr=False, compare=False)
    site: Site
    group: Group
    dtype: torch.dtype
    shape: tuple[int, ...]
    accumulated: Gap
    local: Gap
    judgement: Judgement
    of_quantized: float | None = None
    of_device: float | None = None

    @property
    def module(self) -> str:
        """The qualified name of the module, such as `features.3.conv`."""
        return self.group.module

    @property
    def operator(self) -> str:
        """The names of the operators, such as `convolution + relu`."""
        return self.group.operator

    @property
    def source(self) -> str:
        """The line of the model, such as `/home/me/net.py:12`; empty if unknown."""
        return self.group.source

    @property
    def backend(self) -> str:
        """The id of the backend; `edgecore` for its own kernels."""
        return self.site.backend or "edgecore"

    @property
    def wrong(self) -> bool:
        """True if the local error is more than rounding explains."""
        return self.judgement.ratio > 1

    def extract(self, folder: str | Path) -> list[Path]:
        """Write the operator as a test case that the author of the backend can run, and return the paths of its files.

        Args:
            folder: A folder, which is created if it does not exist. It gets the operator (`operator.pt2`), compiled
                with its inputs and expected output (`operator.bpte`), the values of the device (`values.pt`), a script
                that runs them (`run.py`), and `README.txt`.

        Raises:
            CompileError: The operator cannot be compiled on its own, or its inputs are not seen on the device.
            WriteError: A file cannot be written.

        Example:
            >>> report.culprit.extract("bug")
        """
        from edgecore.devtools.comparison.extract import extract

        return extract(self, folder)

    def worst_of(self, other: CompareRow) -> CompareRow:
        """Return the row of the same site with the worst figures of two samples."""
        local = max(self, other, key=lambda row: (row.judgement.ratio, -row.local.sqnr))
        return replace(
            local,
            accumulated=min(self.accumulated, other.accumulated, key=lambda gap: gap.sqnr),
            of_quantized=_lower(self.of_quantized, other.of_quantized),
            of_device=_lower(self.of_device, other.of_device),
        )

    def __str__(self) -> str:
        module = f"{self.module}: " if self.module else ""
        place = f" ({short_source(self.source)})" if self.source else ""
        reason = f": {self.judgement.why}" if self.wrong else f": {self.local}"
        return f"{module}{self.operator}{place} on {self.backend}{reason}"


@dataclass(frozen=True)
class CompareOutput:
    """One output of the model. Figures are those of the worst sample.

    Attributes:
        index: The number of the output.
        own: The device against PyTorch as compiled.
        of_device: The device against the float model.
        of_reference: PyTorch as compiled against the float model.
    """

    index: int
    own: Gap
    of_device: Gap
    of_reference: Gap

    def worst_of(self, other: CompareOutput) -> CompareOutput:
        """Return the worst figures of two samples."""
        pairs = ((getattr(self, name), getattr(other, name)) for name in ("own", "of_device", "of_reference"))
        return CompareOutput(self.index, *(min(pair, key=lambda gap: gap.sqnr) for pair in pairs))


class Findings:
    """Rows that are collected sample by sample.

    Attributes:
        rows: The worst row of each site, by tap.
        outputs: The worst row of each output, by number.
        lowering: What the passes have changed, as a sentence fragment; empty if nothing.
        device: The device that ran the programs, such as "ssh:pi@host"; empty for this machine.
    """

    def __init__(self) -> None:
        self.rows: dict[str, CompareRow] = {}
        self.outputs: dict[int, CompareOutput] = {}
        self.lowering = ""

    def add_row(self, row: CompareRow) -> None:
        """Add a row of one sample."""
        before = self.rows.get(row.site.tap)
        self.rows[row.site.tap] = row if before is None else before.worst_of(row)

    def add_output(self, row: CompareOutput) -> None:
        """Add an output of one sample."""
        before = self.outputs.get(row.index)
        self.outputs[row.index] = row if before is None else before.worst_of(row)


@dataclass(frozen=True)
class Conditions:
    """The conditions of a comparison: the backends, the samples, and the way in which values were seen.

    Attributes:
        backends: The names of the backends.
        quantized: True if the model was quantized.
        samples: The number of samples.
        origin: Where they come from: `inputs`, `calibration` or `example`.
        cut: True if the program was cut, because taps gave no values.
        sites: The number of values that could be seen.
        programs: The number of programs with taps.
        left_out: The number of values without a row: taps on them change the outputs, or cannot be compiled.
        lowering: What the passes have changed, as a sentence fragment; empty if nothing.
        device: The device that ran the programs, such as "ssh:pi@host"; empty for this machine.
    """

    backends: tuple[str, ...]
    quantized: bool
    samples: int
    origin: str
    cut: bool
    sites: int
    programs: int
    left_out: int
    lowering: str
    device: str = ""

    @property
    def way(self) -> str:
        """The way in which the values were seen, and its effect, as a sentence."""
        if self.cut:
            return "the program was cut instead of tapped: only the operator that was searched for has a row"
        if not self.sites:
            return "no value inside of the program can be seen"
        if not self.programs:
            return "only outputs of the program are seen, not values inside of it"
        programs = "1 program" if self.programs == 1 else f"{self.programs} programs"
        text = f"taps in {programs} changed nothing: the outputs are bit-equal with and without them"
        if self.left_out:
            text += f"; {self.left_out} of {self.sites} values have no row, because taps on them change what they show"
        return text


@dataclass(frozen=True)
class CompareReport:
    """The result of a comparison. `print` shows it as a table.

    Attributes:
        rows: The operators, in the order of the model.
        outputs: The outputs.
        conditions: What was compared, and how.
    """

    rows: Sequence[CompareRow]
    outputs: Sequence[CompareOutput]
    conditions: Conditions

    @property
    def culprit(self) -> CompareRow | None:
        """The first operator whose own error is more than rounding; None if there is none."""
        return next((row for row in self.rows if row.wrong), None)

    @property
    def ok(self) -> bool:
        """True if no operator and no pass is wrong."""
        return self.culprit is None and not self.conditions.lowering

    @property
    def accuracy(self) -> float:
        """The lowest SQNR in dB of an output of the device against the float model."""
        return min((row.of_device.sqnr for row in self.outputs), default=math.inf)

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
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
            top: The number of rows: wrong ones, then those with the largest errors, in the order of the model; 0 for all.
            width: The number of columns to stay within, if the names allow it.
        """
        from edgecore.devtools.comparison.table import table

        return table(self, top, width)

    def __str__(self) -> str:
        return self.table()

    def to_html(self, title: str = "Comparison") -> str:
        """Return the report as a page that people open in a browser; it needs no other file and makes no request."""
        return report_page(self, title)

    def as_dict(self) -> dict[str, Any]:
        """Return all figures for JSON; None stands for infinite figures of equal values."""
        culprit = self.culprit
        return {
            "ok": self.ok,
            "verdict": self.verdict,
            "accuracy": _number(self.accuracy),
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


def report_page(report: CompareReport, title: str) -> str:
    """Return a report as an HTML page."""
    from edgecore.html import page, table

    rows = [
        {"module": row.module, "operator": row.operator, "line": short_source(row.source), "backend": row.backend,
         "local": _level(row.local.sqnr), "accumulated": _level(row.accumulated.sqnr), "wrong": row.wrong,
         "why": row.judgement.why if row.wrong else ""}
        for row in report.rows
    ]  # fmt: skip
    outputs = [
        (str(row.index), decibels(row.own.sqnr), decibels(row.of_device.sqnr), decibels(row.of_reference.sqnr))
        for row in report.outputs
    ]
    columns = ["output", "device against PyTorch as compiled", "device against the float model", "PyTorch as compiled"]
    conditions = report.conditions
    content = {
        "facts": [
            ("verdict", report.verdict),
            ("backends", ", ".join(conditions.backends) or "edgecore's kernels"),
            ("device", conditions.device or "this machine"),
            ("samples", str(conditions.samples)),
            ("values come from", conditions.way),
        ],
        "accuracy": {"rows": rows, "culprit": next((at for at, row in enumerate(rows) if row["wrong"]), None)},
        "tables": [table("Outputs", columns, outputs)] if outputs else [],
    }
    return page(title, content)


def _level(sqnr: float) -> float | None:
    """Return an SQNR for the page: None for equal values, a very low one for values that are no numbers."""
    if sqnr == math.inf:
        return None
    return sqnr if math.isfinite(sqnr) else -1000.0


def short_source(source: str) -> str:
    """Return a source line without the folder of its file: `net.py:12`."""
    return PurePath(source).name


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
        "quantized_to_float": _number(row.of_quantized),
        "device_to_float": _number(row.of_device),
        "wrong": row.wrong,
        "why": row.judgement.why if row.wrong else "",
    }


def _gap(gap: Gap) -> dict[str, Any]:
    return {
        "sqnr": _number(gap.sqnr),
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


def _lower(first: float | None, second: float | None) -> float | None:
    return min((value for value in (first, second) if value is not None), default=None)


def sqnr_text(value: float | None) -> str:
    """Return an SQNR for a column; a dash for None."""
    return "-" if value is None else decibels(value)
