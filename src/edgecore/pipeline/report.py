"""The delegation report: which operators run where, and why."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torch.export import ExportedProgram

from edgecore.ir.delegate import delegates, is_delegate_call
from edgecore.ir.graph import calls, operator_name, source_line
from edgecore.partition import Refusals


@dataclass(frozen=True)
class ReportRow:
    """One operator call: `where` is a backend id or `edgecore`; `reasons` say why each backend left it."""

    method: str
    operator: str
    node: str
    where: str
    source: str = ""
    reasons: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class DelegationReport:
    """All operator calls of all methods, and the number of delegates by backend."""

    rows: list[ReportRow] = field(default_factory=list)
    delegates: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, programs: Mapping[str, ExportedProgram], refusals: Mapping[str, Refusals]) -> DelegationReport:
        """The report of edge programs."""
        rows: list[ReportRow] = []
        counts: Counter[str] = Counter()
        for method, program in programs.items():
            for node, module in delegates(program):
                counts[module.backend_id] += 1
                rows += [
                    ReportRow(method, name, node.name, module.backend_id, line) for name, line in node.meta["delegated"]
                ]
            reasons = refusals[method].by_node if method in refusals else {}
            for node in calls(program.graph_module):
                if node.target is not operator.getitem and not is_delegate_call(node):
                    why = tuple(reasons.get(node.name, ()))
                    rows.append(
                        ReportRow(method, operator_name(node.target), node.name, "edgecore", source_line(node), why)
                    )
        return cls(rows, dict(counts))

    @property
    def left_outside(self) -> list[ReportRow]:
        """The calls that no backend took."""
        return [row for row in self.rows if row.where == "edgecore"]

    def __str__(self) -> str:
        total, outside = len(self.rows), self.left_outside
        backends = ", ".join(f"{count} x {name}" for name, count in self.delegates.items()) or "none"
        lines = [f"delegates: {backends}; operators delegated: {total - len(outside)} of {total}"]
        for row in outside:
            why = "; ".join(f"{backend}: {reason}" for backend, reason in row.reasons) or "no backend was asked"
            place = f" at {row.source}" if row.source else ""
            lines.append(f"  outside: {row.operator} ({row.node}){place}: {why}")
        return "\n".join(lines)

    def to_html(self, path: str | Path) -> None:
        """Write the report as one self-contained page."""
        from jinja2 import Environment, PackageLoader, select_autoescape

        environment = Environment(loader=PackageLoader("edgecore.pipeline"), autoescape=select_autoescape())
        page = environment.get_template("report.html").render(report=self)
        Path(path).write_text(page, encoding="utf-8")
