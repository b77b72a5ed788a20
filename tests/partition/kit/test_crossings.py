"""Values that stay inside of a partition: their operator and all their readers are in one partition, or outside."""

import torch
from fake_backends import lower
from torch import nn

from edgecore.ir.delegate import delegates
from edgecore.partition import CapabilityPartitioner
from edgecore.pipeline import to_edge

aten = torch.ops.aten
OUTSIDE, BEFORE = "its sums are read outside the delegate", "reads sums that are computed outside the delegate"


def reasons(forward, *unsupported):
    """Lower a method whose sums must stay inside; return operator -> reason of the calls outside, and the partitions."""

    class Model(nn.Module):
        def forward(self, x):
            return forward(x)

    program = to_edge(torch.export.export(Model(), (torch.randn(4, 4),))).exported_program()
    partitioner = CapabilityPartitioner(
        "Fake",
        lambda program: lambda node: "no" if node.target in unsupported else None,
        inside_only=lambda node: (
            "sums" if node.target in (aten.add.Tensor, aten.split_with_sizes_copy.default) else None
        ),
    )
    targets = {node.name: node.target for node in program.graph.nodes}
    program, diagnostics = lower(program, partitioner)
    return {targets[name]: found[0][1] for name, found in diagnostics.by_node.items()}, len(delegates(program))


def test_a_value_that_an_unsupported_operator_reads_is_outside():
    found, count = reasons(lambda x: torch.sin(x.abs() + x), aten.sin.default)
    assert found == {aten.sin.default: "no", aten.add.Tensor: OUTSIDE} and count == 1


def test_a_value_that_is_a_result_of_the_model_is_outside():
    found, _ = reasons(lambda x: x.abs() + x)
    assert found[aten.add.Tensor] == OUTSIDE


def test_readers_of_a_value_outside_are_outside_too():
    def forward(x):
        y = x + x
        return y.abs(), torch.sin(y)

    found, count = reasons(forward, aten.sin.default)
    assert found == {aten.sin.default: "no", aten.add.Tensor: OUTSIDE, aten.abs.default: BEFORE} and count == 0


def test_a_value_between_two_partitions_is_outside():
    """The product waits for the sine, so that it would be in a later partition than the sum."""

    def forward(x):
        y = x.abs()
        return (x + y) * torch.sin(y)

    found, _ = reasons(forward, aten.sin.default)
    assert found == {aten.sin.default: "no", aten.add.Tensor: OUTSIDE, aten.mul.Tensor: BEFORE}


def test_values_that_stay_inside_make_no_difference_to_a_whole_partition():
    found, count = reasons(lambda x: (x.abs() + x).abs())
    assert not found and count == 1
