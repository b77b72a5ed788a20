"""Partitioning: the fewest convex partitions, nothing but tags, and a reason for every refusal."""

import pytest
import torch
from torch import nn

from edgecore.errors import CompileError
from edgecore.ir.delegate import delegates
from edgecore.partition import (
    TAG,
    CapabilityPartitioner,
    DelegationSpec,
    PartitionDiagnostics,
    PartitionResult,
    to_backend,
)
from edgecore.pipeline import DelegationReport, to_edge, to_edge_transform_and_lower
from edgecore.plugin import PreprocessResult

aten = torch.ops.aten


class Zigzag(nn.Module):
    """Two branches that leave the backend (sin) and come back."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, x, y):
        a = x + self.weight
        b = torch.sin(a) * 2
        c = y * 3 + a
        return b + c, c


def edge():
    return to_edge(torch.export.export(Zigzag(), (torch.randn(4), torch.randn(4)))).exported_program()


def no_sin(program):
    return lambda node: "sin is not supported" if node.target is aten.sin.default else None


def fake_preprocess(backend_id, program, specs):
    return PreprocessResult(b"blob"), ("fake", "1")


def lower(program, partitioner, preprocess=fake_preprocess):
    diagnostics = PartitionDiagnostics()
    return to_backend(program, partitioner, preprocess, diagnostics), diagnostics


def test_fewest_convex_partitions_and_the_same_results():
    program, diagnostics = lower(edge(), CapabilityPartitioner("Fake", no_sin))
    assert len(delegates(program)) == 2
    assert diagnostics.by_node == {"sin": [("Fake", "sin is not supported")]}
    inputs = torch.randn(4), torch.randn(4)
    model = Zigzag()
    model.weight.data = program.state_dict.get("weight", delegates(program)[0][1].original_module.state_dict["weight"])
    for got, expected in zip(program.module(check_guards=False)(*inputs), model(*inputs), strict=True):
        torch.testing.assert_close(got, expected)


def test_weights_move_into_the_partition():
    program, _ = lower(edge(), CapabilityPartitioner("Fake", no_sin))
    assert list(delegates(program)[0][1].original_module.state_dict) == ["weight"]
    assert not program.state_dict


def test_a_partition_of_nothing_but_data_movement_is_not_made():
    class Reshape(nn.Module):
        def forward(self, x):
            return x.view(2, 2).permute(1, 0)

    program = to_edge(torch.export.export(Reshape(), (torch.randn(4),))).exported_program()
    program, diagnostics = lower(program, CapabilityPartitioner("Fake", lambda program: lambda node: None))
    assert not delegates(program)
    assert "data movement" in diagnostics.by_node["view_copy_default"][0][1]


def test_report_says_where_and_why():
    program, diagnostics = lower(edge(), CapabilityPartitioner("Fake", no_sin))
    report = DelegationReport.of({"forward": program}, {"forward": diagnostics})
    assert report.delegates == {"Fake": 2}
    (row,) = report.left_outside
    assert (row.operator, row.where, row.reasons) == (
        "aten.sin.default",
        "edgecore",
        (("Fake", "sin is not supported"),),
    )
    assert "test_capability.py:" in row.source
    assert "sin is not supported" in str(report)


class Mutating:
    def ops_to_not_decompose(self, program):
        return (), None

    def partition(self, program):
        node = next(node for node in program.graph.nodes if node.target is aten.sin.default)
        node.target = aten.cos.default
        return PartitionResult(program, {})


def test_a_partitioner_may_only_tag():
    with pytest.raises(CompileError, match="Mutating changed the program"):
        lower(edge(), Mutating())


class TagAll(Mutating):
    def __init__(self, tags, targets=(aten.add.Tensor,)):
        self.tags, self.targets = tags, targets

    def partition(self, program):
        for node in program.graph.nodes:
            if node.target in self.targets:
                node.meta[TAG] = "part"
        return PartitionResult(program, self.tags)


def test_a_tag_without_meaning_is_refused():
    with pytest.raises(CompileError, match="which it does not define"):
        lower(edge(), TagAll({}))


def test_a_partition_that_is_not_convex_is_refused():
    spec = DelegationSpec("Fake")
    with pytest.raises(CompileError, match="not convex"):
        lower(edge(), TagAll({"part": spec}, (aten.add.Tensor,)))


def test_parts_of_a_whole_operator_that_is_refused_after_all_name_it():
    class Hard(nn.Module):
        def forward(self, x):
            return nn.functional.hardswish(x)

    partitioner = CapabilityPartitioner(
        "Fake", lambda program: lambda node: "no", ops_to_not_decompose=[aten.hardswish.default]
    )
    exported = torch.export.export(Hard().eval(), (torch.randn(4),))
    report = to_edge_transform_and_lower(exported, partitioner=[partitioner]).report()
    assert report.left_outside
    assert {row.reasons for row in report.left_outside} == {(("Fake", "part of aten.hardswish.default: no"),)}
