"""The delegation report: which operators run where, and why."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.delegate import delegates, is_delegate_call
from edgecore.ir.dialect import SYMBOLIC
from edgecore.ir.graph import calls, dtypes_of, module_path, operator_name, source_line
from edgecore.partition import Failure, PartitionDiagnostics
from edgecore.pipeline.preprocess import report_lines
from edgecore.pipeline.report_memory import ArenaReport
from edgecore.plugin import PreprocessResult
from edgecore.quantize.quality import LayerQuality, decibels


@dataclass(frozen=True)
class ReportRow:
    """One operator call: `where` is a backend id or `edgecore`; `reasons` say why each backend left it.

    `node` is its name in the edge program, also of a call that is now inside a delegate. `module` is the qualified name of
    the innermost module that makes the call, `source` the line of the model's code. `dtypes`: of the tensors that it reads
    and gives.
    """

    method: str
    operator: str
    node: str
    where: str
    source: str = ""
    reasons: tuple[tuple[str, str], ...] = ()
    dtypes: tuple[str, ...] = ()
    module: str = ""

    @property
    def place(self) -> str:
        """`model.py:12 in encoder.layers.3`, or what is known of it."""
        return f"{self.source} in {self.module}".strip() if self.module else self.source


@dataclass(frozen=True)
class DelegationReport:
    """All operator calls on tensors of all methods, the number of delegates by backend, and the arenas of a finished program.

    `quantization`: what each layer of a quantized program loses, worst first; None if nobody asked. `sections`: what
    backends say of their delegates, lines by backend id. `failures`: where a backend failed, so that operators run elsewhere.
    """

    rows: list[ReportRow] = field(default_factory=list)
    delegates: dict[str, int] = field(default_factory=dict)
    memory: list[ArenaReport] = field(default_factory=list)
    quantization: list[LayerQuality] | None = None
    sections: dict[str, list[str]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    @classmethod
    def of(
        cls, programs: Mapping[str, ExportedProgram], diagnostics: Mapping[str, PartitionDiagnostics]
    ) -> DelegationReport:
        """The report of edge programs."""
        rows: list[ReportRow] = []
        results: dict[str, list[PreprocessResult]] = {}
        for method, program in programs.items():
            for node, module in delegates(program):
                results.setdefault(module.backend_id, []).append(module.result)
                rows += [
                    ReportRow(method, one.operator, one.node, module.backend_id, one.source, (), one.dtypes, one.module)
                    for one in node.meta["delegated"]
                ]
            reasons = diagnostics[method].by_node if method in diagnostics else {}
            for node in calls(program.graph_module):
                if node.target is not operator.getitem and not is_delegate_call(node) and not _is_size(node):
                    why = tuple(reasons.get(node.name, ()))
                    name, line, path = operator_name(node.target), source_line(node), module_path(node)
                    rows.append(ReportRow(method, name, node.name, "edgecore", line, why, dtypes_of(node), path))
        counts = {backend_id: len(of_backend) for backend_id, of_backend in results.items()}
        said = {backend_id: report_lines(backend_id, of_backend) for backend_id, of_backend in results.items()}
        sections = {backend_id: lines for backend_id, lines in said.items() if lines}
        failures = [failure for method in programs if method in diagnostics for failure in diagnostics[method].failures]
        return cls(rows, counts, sections=sections, failures=failures)

    @property
    def left_outside(self) -> list[ReportRow]:
        """The calls that no backend took."""
        return [row for row in self.rows if row.where == "edgecore"]

    def __str__(self) -> str:
        total, outside = len(self.rows), self.left_outside
        backends = ", ".join(f"{count} x {name}" for name, count in self.delegates.items()) or "none"
        lines = [f"delegates: {backends}; operators delegated: {total - len(outside)} of {total}"]
        if self.failures:
            count = sum(failure.operators for failure in self.failures)
            lines.append(f"failures of backends: {len(self.failures)}, for which {count} operators run elsewhere")
            lines += [f"  {failure.sentence}" for failure in self.failures]
        lines += [f"  outside: {line}" for line in self.outside_lines()]
        for backend_id, said in self.sections.items():
            lines += [f"{backend_id}:", *(f"  {line}" for line in said)]
        return "\n".join([*lines, *map(str, self.memory), *self.quantization_lines()])

    def quantization_lines(self, limit: int = 10) -> list[str]:
        """The layers that differ most from the float program, a line each."""
        rows = self.quantization
        if not rows:
            return []
        layers = "1 layer" if len(rows) == 1 else f"{len(rows)} layers"
        head = f"quantization: {layers}, SQNR {decibels(rows[0].sqnr)} to {decibels(rows[-1].sqnr)}; worst first:"
        several = len({row.method for row in rows}) > 1
        return [
            head,
            *(f"  {f'{row.method}: ' if several else ''}{row}" for row in rows[:limit] if row.sqnr < math.inf),
        ]

    def outside_groups(self) -> list[list[ReportRow]]:
        """The calls that no backend took, those of one operator with the same reasons together."""
        groups: dict[tuple[str, tuple[tuple[str, str], ...]], list[ReportRow]] = {}
        for row in self.left_outside:
            groups.setdefault((row.operator, row.reasons), []).append(row)
        return list(groups.values())

    def outside_lines(self) -> list[str]:
        """A line for each of `outside_groups`: operator, the first nodes, source lines and modules, reasons."""
        lines = []
        for rows in self.outside_groups():
            count = f"{len(rows)} x " if len(rows) > 1 else ""
            places = _first([row.place for row in rows if row.place])
            lines.append(_line(count + rows[0].operator, _first([row.node for row in rows]), places, rows[0]))
        return lines

    def outside_nodes(self) -> list[str]:
        """A line for each call that no backend took: operator, node, source line and module, reasons."""
        return [_line(row.operator, row.node, row.place, row) for row in self.left_outside]

    def to_html(self, path: str | Path) -> None:
        """Write the report as one self-contained page."""
        from jinja2 import Environment, PackageLoader, select_autoescape

        environment = Environment(loader=PackageLoader("edgecore.pipeline"), autoescape=select_autoescape())
        environment.filters["decibels"] = decibels
        page = environment.get_template("report.html").render(report=self)
        Path(path).write_text(page, encoding="utf-8")


def _line(operators: str, nodes: str, places: str, row: ReportRow) -> str:
    why = "; ".join(f"{backend}: {reason}" for backend, reason in row.reasons) or "no backend was asked"
    return f"{operators} ({nodes}){f' at {places}' if places else ''}: {why}"


def _is_size(node: Node) -> bool:
    """Arithmetic on symbolic sizes is no work that a backend could take."""
    return node.target is torch.ops.aten.sym_size.int or node.target in SYMBOLIC


def _first(texts: list[str], limit: int = 3) -> str:
    """The first different ones in a line."""
    different = list(dict.fromkeys(texts))
    return ", ".join(different[:limit] + ["..."] * (len(different) > limit))
