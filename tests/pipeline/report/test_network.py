"""The connections of calls inside and outside of delegates."""

from __future__ import annotations

import torch
from fake_backends import lower, no_sin, zigzag
from small_models import Layers
from torch import nn

from edgecore.partition import CapabilityPartitioner
from edgecore.pipeline import DelegationReport, to_edge


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
