"""The partitioner by capability: the fewest convex partitions, and a reason for each node outside."""

import torch
from fake_backends import Zigzag, lower, no_sin, zigzag
from torch import nn

from edgecore.ir.delegate import delegates
from edgecore.partition import (
    CapabilityPartitioner,
)
from edgecore.pipeline import to_edge, to_edge_transform_and_lower

aten = torch.ops.aten


def test_partitions_are_convex_and_as_few_as_possible():
    program, diagnostics = lower(zigzag(), CapabilityPartitioner("Fake", no_sin))
    assert len(delegates(program)) == 2
    assert diagnostics.by_node == {"sin": [("Fake", "sin is not supported")]}
    inputs = torch.randn(4), torch.randn(4)
    model = Zigzag()
    model.weight.data = program.state_dict.get("weight", delegates(program)[0][1].original_module.state_dict["weight"])
    for got, expected in zip(program.module(check_guards=False)(*inputs), model(*inputs), strict=True):
        torch.testing.assert_close(got, expected)


def test_weights_move_into_the_partition_that_reads_them():
    program, _ = lower(zigzag(), CapabilityPartitioner("Fake", no_sin))
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
