"""The delegation report: the backend that runs each operator, and why other operators are not delegated."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.files import write_file
from edgecore.ir.delegate import delegates, is_delegate_call
from edgecore.ir.dialect.edge_operators import SYMBOLIC
from edgecore.ir.graph import all_calls, dtypes_of, module_path, operator_name, source_line
from edgecore.ir.program.mutable_state import mutable_buffers
from edgecore.numerics.decibels import decibels, finite_decibels
from edgecore.numerics.quality import LayerQuality
from edgecore.partition import Failure, PartitionDiagnostics, held_buffers
from edgecore.pipeline.preprocess import report_lines
from edgecore.pipeline.report.memory import ArenaReport
from edgecore.pipeline.report.network import connections
from edgecore.plugin import PreprocessResult


def join_reasons(reasons: Iterable[tuple[str, str]]) -> str:
    """Return (backend id, sentence) pairs as text: `XnnpackBackend: no lowering for aten.topk.default; ...`."""
    return "; ".join(f"{backend}: {reason}" for backend, reason in reasons)


@dataclass(frozen=True)
class ReportRow:
    """One call of an operator.

    Attributes:
        method: The name of the method.
        operator: The name of the operator.
        node: The name of the node in the edge program, before delegation.
        where: The id of the backend that runs the call; `edgecore` if it is not delegated.
        source: The line of the model's code, `file.py:12`.
        reasons: (backend id, sentence) for each backend that did not delegate the call; ("edgecore", sentence) for a
            call that edgecore added after partitioning.
        dtypes: The dtypes of the call's inputs and outputs.
        module: The qualified name of the innermost module that makes the call.
        inputs: The names of the nodes, or of inputs of the method, whose results the call reads.
        shape: The dtype and shape of the first result, such as `float32 [1, 10]`; empty if it is not a tensor.
        partition: The number of the delegate that computes the call, from 0 in each method; None outside of delegates.
    """

    method: str
    operator: str
    node: str
    where: str
    source: str = ""
    reasons: tuple[tuple[str, str], ...] = ()
    dtypes: tuple[str, ...] = ()
    module: str = ""
    inputs: tuple[str, ...] = ()
    shape: str = ""
    partition: int | None = None

    @property
    def location(self) -> str:
        """The source line and module, such as `model.py:12 in encoder.layers.3`, as far as they are known."""
        return f"{self.source} in {self.module}".strip() if self.module else self.source

    @property
    def why(self) -> str:
        """The reason of each backend that did not delegate the call; empty if the call is delegated."""
        return "" if self.where != "edgecore" else join_reasons(self.reasons) or "no backend was asked"


@dataclass(frozen=True)
class BufferRow:
    """One mutable buffer, which methods may share.

    Attributes:
        name: The qualified name.
        bytes: The size of its content.
        where: The id of the backend that holds it; `edgecore` if it is outside of all backends.
        methods: The names of the methods that have it.
        reasons: (backend id, sentence) for each backend that claimed the buffer, but does not hold it.
    """

    name: str
    bytes: int
    where: str
    methods: tuple[str, ...]
    reasons: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class DelegationReport:
    """The delegation report of all methods; `print` shows it as text.

    Attributes:
        rows: All calls of operators on tensors, in the order of execution of each method.
        delegates: Backend id -> number of delegates.
        memory: The arenas of a finished program.
        quantization: The loss of each layer of a quantized program, worst first; None if not requested.
        sections: Backend id -> lines from the backend about its delegates.
        failures: Failures of partitioners and backends. The affected operators run on another backend or on edgecore's
            kernels.
        buffers: The mutable buffers, and the backends that hold them.
        unheld: Sentences about numbers that a backend's low precision cannot represent, and the calls that read them.
    """

    rows: list[ReportRow] = field(default_factory=list)
    delegates: dict[str, int] = field(default_factory=dict)
    memory: list[ArenaReport] = field(default_factory=list)
    quantization: list[LayerQuality] | None = None
    sections: dict[str, list[str]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    buffers: list[BufferRow] = field(default_factory=list)
    unheld: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls, programs: Mapping[str, ExportedProgram], diagnostics: Mapping[str, PartitionDiagnostics]
    ) -> DelegationReport:
        """Make the report of edge programs (method name -> program)."""
        rows: list[ReportRow] = []
        results: dict[str, list[PreprocessResult]] = {}
        for method, program in programs.items():
            connected = connections(program)
            of_method: list[ReportRow] = []
            for node, module in delegates(program):
                results.setdefault(module.backend_id, []).append(module.result)
                of_method += [
                    ReportRow(
                        method, call.operator, call.node, module.backend_id, call.source, (), call.dtypes, call.module
                    )
                    for call in node.meta["delegated"]
                ]
            reasons = diagnostics[method].by_node if method in diagnostics else {}
            # If a pass replaces a call by several calls, one of them inherits its name, and all inherit its debug
            # handle: use both.
            by_handle = {
                _debug_handle(node): reasons[node.name]
                for node in all_calls(program.graph_module)
                if node.name in reasons
            }
            for node in all_calls(program.graph_module):
                if node.target is not operator.getitem and not is_delegate_call(node) and not _is_size(node):
                    node_reasons = tuple(
                        reasons.get(node.name)
                        or node.meta.get("unsupported_reasons", ())
                        or by_handle.get(_debug_handle(node), ())
                    )
                    name, line, path = operator_name(node.target), source_line(node), module_path(node)
                    of_method.append(
                        ReportRow(method, name, node.name, "edgecore", line, node_reasons, dtypes_of(node), path)
                    )
            place = {name: index for index, name in enumerate(connected)}
            of_method.sort(key=lambda row: place.get(row.node, len(place)))
            rows += [replace(row, **vars(connected[row.node])) if row.node in connected else row for row in of_method]
        counts = {backend_id: len(of_backend) for backend_id, of_backend in results.items()}
        all_lines = {backend_id: report_lines(backend_id, of_backend) for backend_id, of_backend in results.items()}
        sections = {backend_id: lines for backend_id, lines in all_lines.items() if lines}
        failures = [failure for method in programs if method in diagnostics for failure in diagnostics[method].failures]
        return cls(rows, counts, sections=sections, failures=failures, buffers=_buffer_rows(programs, diagnostics))

    @property
    def left_outside(self) -> list[ReportRow]:
        """The calls that are not delegated."""
        return [row for row in self.rows if row.where == "edgecore"]

    def __str__(self) -> str:
        total, outside = len(self.rows), self.left_outside
        backends = ", ".join(f"{count} x {name}" for name, count in self.delegates.items()) or "none"
        lines = [f"delegates: {backends}; operators delegated: {total - len(outside)} of {total}"]
        if self.failures:
            count = sum(failure.operators for failure in self.failures)
            lines.append(f"failures of backends: {len(self.failures)}; {count} operators run elsewhere for that reason")
            lines += [f"  {failure.sentence}" for failure in self.failures]
        lines += [f"  not delegated: {line}" for line in self.outside_lines()]
        lines += self.buffer_lines()
        for backend_id, backend_lines in self.sections.items():
            lines += [f"{backend_id}:", *(f"  {line}" for line in backend_lines)]
        lines += [f"precision: {line}" for line in self.unheld]
        return "\n".join([*lines, *map(str, self.memory), *self.quantization_lines()])

    def buffer_groups(self) -> list[list[BufferRow]]:
        """Group the mutable buffers by the backend that holds them, and by the reasons why others do not."""
        groups: dict[tuple[str, tuple[tuple[str, str], ...]], list[BufferRow]] = {}
        for row in self.buffers:
            groups.setdefault((row.where, row.reasons), []).append(row)
        return list(groups.values())

    def buffer_lines(self) -> list[str]:
        """Return a line for each group of `buffer_groups`: number, first names, bytes, holder and reasons."""
        lines = []
        for rows in self.buffer_groups():
            count = "1 mutable buffer" if len(rows) == 1 else f"{len(rows)} mutable buffers"
            size, reasons = sum(row.bytes for row in rows), "; ".join(map(": ".join, rows[0].reasons))
            line = f"{count} in {rows[0].where} ({_first([row.name for row in rows])}), {size:,} bytes"
            lines.append(f"{line}: {reasons}" if reasons else line)
        return lines

    def quantization_lines(self, limit: int = 10) -> list[str]:
        """Return a summary of the quantized layers, then a line for each with a finite SQNR, the lowest SQNR first.

        Args:
            limit: Largest number of layers that are listed; `quantization` has all.
        """
        rows = self.quantization
        if not rows:
            return []
        layers = "1 layer" if len(rows) == 1 else f"{len(rows)} layers"
        head = f"quantization: {layers}, SQNR {decibels(rows[0].sqnr)} to {decibels(rows[-1].sqnr)}; worst first:"
        several = len({row.method for row in rows}) > 1
        counts = Counter((row.operator, row.scheme) for row in rows)
        inexact = [row for row in rows if row.sqnr < math.inf]
        more = len(inexact) - limit
        return [
            "layers after quantization:",
            *(f"  {count} x {name}: {scheme}" for (name, scheme), count in counts.most_common()),
            head,
            *(f"  {f'{row.method}: ' if several else ''}{row}" for row in inexact[:limit]),
            *([f"  ({more} more in the HTML report)"] if more > 0 else []),
        ]

    def outside_groups(self) -> list[list[ReportRow]]:
        """Make a group of undelegated calls for each operator and each list of reasons."""
        groups: dict[tuple[str, tuple[tuple[str, str], ...]], list[ReportRow]] = {}
        for row in self.left_outside:
            groups.setdefault((row.operator, row.reasons), []).append(row)
        return list(groups.values())

    def outside_lines(self) -> list[str]:
        """Return a line for each group of undelegated calls: operator, first nodes, sources and modules, reasons."""
        lines = []
        for rows in self.outside_groups():
            count = f"{len(rows)} x " if len(rows) > 1 else ""
            sources = _first([row.location for row in rows if row.location])
            lines.append(_line(count + rows[0].operator, _first([row.node for row in rows]), sources, rows[0]))
        return lines

    def outside_nodes(self) -> list[str]:
        """Return a line for each call that is not delegated: operator, node, source line and module, reasons."""
        return [_line(row.operator, row.node, row.location, row) for row in self.left_outside]

    def as_dict(self) -> dict[str, Any]:
        """Return all figures of the page for JSON; an infinite SQNR becomes None, and minus infinity becomes -1000."""
        return {
            "delegates": self.delegates,
            "operators": [asdict(row) for row in self.rows],
            "failures": [asdict(failure) for failure in self.failures],
            "left_outside": [asdict(row) for row in self.left_outside],
            "buffers": [asdict(row) for row in self.buffers],
            "memory": [asdict(arena) for arena in self.memory],
            "quantization": self.quantization and [_layer(layer) for layer in self.quantization],
            "sections": self.sections,
            "precision": self.unheld,
        }

    def to_html(self, path: str | Path) -> None:
        """Write the report as an HTML page that needs no other file and makes no request.

        Args:
            path: The path of the page; an existing file is replaced.

        Example:
            >>> program.report().to_html("report.html")
        """
        from edgecore.pipeline.report.page import report_page

        write_file(path, report_page(self))

    def _repr_html_(self) -> str:
        """Return the page for a notebook."""
        from edgecore.html import frame
        from edgecore.pipeline.report.page import report_page

        return frame(report_page(self))


def _buffer_rows(
    programs: Mapping[str, ExportedProgram], diagnostics: Mapping[str, PartitionDiagnostics]
) -> list[BufferRow]:
    """List the mutable buffers of all methods; a buffer that methods share has one row."""
    methods: dict[tuple[str, int, str], list[str]] = {}
    reasons: dict[tuple[str, int, str], list[tuple[str, str]]] = {}
    for method, program in programs.items():
        by_buffer = diagnostics[method].by_buffer if method in diagnostics else {}
        outside = [(buffer, "edgecore") for buffer in mutable_buffers(program)]
        for buffer, where in [*held_buffers(program).values(), *outside]:
            key = (buffer.name, buffer.nbytes, where)
            methods.setdefault(key, []).append(method)
            reasons.setdefault(key, []).extend(by_buffer.get(buffer.name, ()))
    return [
        BufferRow(
            name, size, where, tuple(methods[name, size, where]), tuple(dict.fromkeys(reasons[name, size, where]))
        )
        for name, size, where in sorted(methods)
    ]


def _layer(layer: LayerQuality) -> dict[str, Any]:
    figures = {"sqnr": finite_decibels(layer.sqnr), "inputs_sqnr": finite_decibels(layer.inputs_sqnr)}
    return {**asdict(layer), **figures}


def _line(operators: str, nodes: str, sources: str, row: ReportRow) -> str:
    return f"{operators} ({nodes}){f' at {sources}' if sources else ''}: {row.why}"


def _debug_handle(node: Node) -> int | str:
    """Return the debug handle of a call; its name if it has no handle, or several handles like a delegate call."""
    handle = node.meta.get("debug_handle")
    return handle if isinstance(handle, int) else node.name


def _is_size(node: Node) -> bool:
    """Return True for a node that reads or computes a symbolic size, which the report leaves out."""
    return node.target is torch.ops.aten.sym_size.int or node.target in SYMBOLIC


def _first(texts: list[str], limit: int = 3) -> str:
    """Join the first `limit` different texts."""
    different = list(dict.fromkeys(texts))
    return ", ".join(different[:limit] + ["..."] * (len(different) > limit))
