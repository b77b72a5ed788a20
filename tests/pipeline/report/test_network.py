"""The connections of calls inside and outside of delegates."""

from __future__ import annotations

import json
import re
from pathlib import Path

import torch
from fake_backends import lower, no_sin, zigzag
from small_models import Layers
from torch import nn

from edgecore.partition import CapabilityPartitioner
from edgecore.pipeline import DelegationReport, to_edge
from edgecore.pipeline.report.delegation import ReportRow


def names(report: DelegationReport) -> dict[str, tuple[str, ...]]:
    return {row.node: row.inputs for row in report.rows}


def test_calls_read_across_the_borders_of_delegates_what_they_read_without_them() -> None:
    plain = DelegationReport.of({"forward": zigzag()}, {})
    program, diagnostics = lower(zigzag(), CapabilityPartitioner("Fake", no_sin))
    report = DelegationReport.of({"forward": program}, {"forward": diagnostics})
    assert names(report) == names(plain)
    assert [row.partition for row in report.rows if row.where == "Fake"] == sorted(
        row.partition for row in report.rows if row.where == "Fake"
    )
    assert {row.partition for row in report.rows if row.where == "edgecore"} == {None}
    assert {row.partition for row in report.rows if row.where == "Fake"} == {0, 1}


def test_rows_stand_in_the_order_of_execution_with_their_shapes() -> None:
    exported = torch.export.export(Layers().eval(), (torch.ones(3, 8),))
    report = DelegationReport.of({"forward": to_edge(exported).exported_program()}, {})
    seen = {"x"}
    for row in report.rows:
        assert row.inputs and set(row.inputs) <= seen
        assert row.shape == "float32 [3, 8]"
        seen.add(row.node)


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, torch.relu, torch.sigmoid, (x,))


def test_a_branch_reads_the_operands_of_its_call() -> None:
    program = to_edge(torch.export.export(Branches().eval(), (torch.ones(2),))).exported_program()
    rows = {row.operator: row for row in DelegationReport.of({"forward": program}, {}).rows}
    assert rows["aten.relu.default"].inputs == rows["aten.sigmoid.default"].inputs == ("x",)


def drawn(report: DelegationReport, path: Path) -> dict[str, list[str]]:
    """The boxes of the page's network: id -> ids of the boxes that lead to it."""
    report.to_html(path)
    data = re.search(r'<script type="application/json" id="report">(.*?)</script>', path.read_text(), re.DOTALL)
    assert data
    graph = json.loads(data[1])["graph"]
    nodes = [dict(zip(graph["keys"], row, strict=True)) for row in graph["rows"]]
    return {node["id"]: node["inputs"] for node in nodes}


def test_the_network_leaves_out_conversions_that_a_delegate_computes(tmp_path: Path) -> None:
    def row(node: str, operator: str, *inputs: str, where: str = "Fake") -> ReportRow:
        return ReportRow("forward", operator, node, where, inputs=inputs)

    quantize = "quantized_decomposed.quantize_per_tensor.default"
    dequantize = "quantized_decomposed.dequantize_per_tensor.default"
    rows = (
        row("q0", quantize, "x", where="edgecore"),
        row("dq0", dequantize, "q0"),
        row("weight", "quantized_decomposed.dequantize_per_channel.default"),
        row("conv", "aten.convolution.default", "dq0", "weight"),
        row("q1", quantize, "conv"),
        row("dq1", dequantize, "q1"),
        row("dq2", dequantize, "scale"),
        row("add", "aten.add.Tensor", "dq1", "dq1", "dq2"),
    )
    boxes = drawn(DelegationReport(rows=rows), tmp_path / "report.html")
    first, conv, add = "forward/q0", "forward/conv", "forward/add"
    assert boxes == {
        "forward/x": [],
        first: ["forward/x"],
        conv: [first],
        "forward/scale": [],
        add: [conv, "forward/scale"],
    }
