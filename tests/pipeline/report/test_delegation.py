"""The report of a compilation: where each operator runs, why, and what the backends add."""

from __future__ import annotations

import fake_backends
import torch
from fake_backends import CALL_OF_CONV, compiles, delegate, edge, lower, no_sin, zigzag
from torch import nn

from edgecore.partition import (
    CapabilityPartitioner,
)
from edgecore.pipeline import DelegationReport, to_edge

aten = torch.ops.aten


def test_source_lines_are_those_of_the_model_and_not_of_torch(tmp_path):
    program = edge()
    delegate(program, CapabilityPartitioner("Fake", no_sin), compiles)
    report = DelegationReport.of({"forward": program}, {})
    rows = {row.node: row for row in report.rows}
    assert rows["convolution_default"].location == f"{CALL_OF_CONV.partition(', ')[2]} in first.conv"
    assert all(row.source.startswith(fake_backends.__file__) for row in report.rows)
    assert rows["convolution_default"].operator == "aten.convolution.default"
    report.to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "call_delegate" not in page and '"convolution_default_1"' in page and '"first.conv"' in page


def test_the_source_of_a_layer_that_only_torch_calls_is_its_module():
    program = to_edge(
        torch.export.export(nn.Sequential(nn.Linear(2, 2)).eval(), (torch.ones(1, 2),))
    ).exported_program()
    (row,) = DelegationReport.of({"forward": program}, {}).rows
    assert (row.source, row.module) == ("", "0")


def test_the_report_says_where_an_operator_runs_and_why():
    program, diagnostics = lower(zigzag(), CapabilityPartitioner("Fake", no_sin))
    report = DelegationReport.of({"forward": program}, {"forward": diagnostics})
    assert report.delegates == {"Fake": 2}
    (row,) = report.left_outside
    assert (row.operator, row.where, row.reasons) == (
        "aten.sin.default",
        "edgecore",
        (("Fake", "sin is not supported"),),
    )
    assert "fake_backends.py:" in row.source
    assert "sin is not supported" in str(report)


def test_sections_of_backends_stand_in_the_text_and_in_the_page(tmp_path):
    report = DelegationReport(sections={"ToyBackend": ["2 blobs <estimated>"]})
    assert str(report).splitlines()[1:] == ["ToyBackend:", "  2 blobs <estimated>"]
    report.to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert '["ToyBackend","2 blobs \\u003cestimated>"]' in page
