"""Results of the checks, as text, JUnit XML and JSON."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

from edgecore.files import write_file

Outcome = Literal["passed", "failed", "skipped"]

_WIDTH = 120


@dataclass(frozen=True)
class Row:
    """Result of one check. `detail` says what was checked, or why the check failed or was skipped."""

    name: str
    group: str
    outcome: Outcome
    detail: str
    seconds: float


@dataclass(frozen=True)
class Report:
    """Results of all checks of one run of the conformance suite, in the order in which they ran."""

    backend: str
    rows: list[Row] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """True if at least one check passed and none failed."""
        return any(row.outcome == "passed" for row in self.rows) and not self.failed

    @property
    def failed(self) -> list[Row]:
        """The results of the checks that failed."""
        return [row for row in self.rows if row.outcome == "failed"]

    @property
    def seconds(self) -> float:
        """Wall-clock seconds of all checks together."""
        return sum(row.seconds for row in self.rows)

    def __str__(self) -> str:
        lines: list[str] = []
        group = None
        for row in self.rows:
            if row.group != group:
                group = row.group
                lines.append(group)
            mark = {"passed": "ok     ", "failed": "FAILED ", "skipped": "skipped"}[row.outcome]
            head = f"  {mark} {row.name.removeprefix(group + '/')}"
            text = f"{head}: {row.detail}" if row.detail else head
            # Wrap the texts of failed checks, which users read in full; print every other result on one line.
            width = _WIDTH if row.outcome == "failed" else max(_WIDTH, len(text) + 1)
            lines += textwrap.wrap(text, width, subsequent_indent=" " * 10, break_long_words=False) or [text]
        return "\n".join([*lines, self.summary()])

    def summary(self) -> str:
        """Return one line: how many checks passed, failed and were skipped, and the seconds that all of them took."""
        counts = Counter(row.outcome for row in self.rows)
        parts = [f"{counts[outcome]} {outcome}" for outcome in ("passed", "failed", "skipped") if counts[outcome]]
        return f"{self.backend}: {', '.join(parts) or 'no checks'} in {self.seconds:.0f} s"

    def to_json(self, path: str | Path) -> None:
        """Write the report as JSON: `{backend, ok, rows: [{name, group, outcome, detail, seconds}]}`."""
        content = {"backend": self.backend, "ok": self.ok, "rows": [asdict(row) for row in self.rows]}
        write_file(path, json.dumps(content, indent=2) + "\n")

    def to_junit(self, path: str | Path) -> None:
        """Write the report as JUnit XML: a test suite with one test case for each check."""
        counts = Counter(row.outcome for row in self.rows)
        suite = ElementTree.Element(
            "testsuite",
            name=f"edgecore conformance {self.backend}",
            tests=str(len(self.rows)),
            failures=str(counts["failed"]),
            skipped=str(counts["skipped"]),
            errors="0",
            time=f"{self.seconds:.3f}",
        )
        for row in self.rows:
            case = ElementTree.SubElement(
                suite, "testcase", classname=row.group, name=row.name, time=f"{row.seconds:.3f}"
            )
            if row.outcome == "passed":
                ElementTree.SubElement(case, "system-out").text = _printable(row.detail)
            else:
                kind = "failure" if row.outcome == "failed" else "skipped"
                ElementTree.SubElement(case, kind, message=_printable(row.detail))
        write_file(path, ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True))


def _printable(text: str) -> str:
    """Replace control characters, which XML does not allow: error messages about damaged blobs may contain some."""
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text)
