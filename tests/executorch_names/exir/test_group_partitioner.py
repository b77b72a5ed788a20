"""`GroupBasedPartitioner` and `to_backend` over several methods."""

from __future__ import annotations

import operator

import pytest
import torch
from fake_backends import echo_backend  # noqa: F401
from torch.fx.passes.operator_support import OperatorSupportBase

from edgecore.errors import CompileError
from edgecore.executorch.exir.group_partitioner import GroupBasedPartitioner
from edgecore.executorch.exir.scripts.lowering import MethodProgramsPartitionerSpec, to_backend, to_edge
from edgecore.ir.delegate import delegates


class NoSine(OperatorSupportBase):
    def is_node_supported(self, submodules, node):
        return node.op == "call_function" and node.target is not torch.ops.aten.sin.default


def graph_of(function):
    class Model(torch.nn.Module):
        def forward(self, x):
            return function(x)

    return torch.export.export(Model(), (torch.ones(2, 4),)).graph_module


def proposed(graph_module, names=(), **options):
    nodes = {node.name: node for node in graph_module.graph.nodes}
    groups = [[nodes[name] for name in group] for group in names]
    partitioner = GroupBasedPartitioner(graph_module, NoSine(), node_groups=groups, **options)
    return sorted(sorted(node.name for node in partition.nodes) for partition in partitioner.propose_partitions())


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({}, [["add", "relu"]]),
        ({"non_compute_ops": ["torch.ops.aten.relu.default"]}, []),
        ({"non_compute_ops": ["torch.ops.aten.neg.default"]}, [["add", "relu"]]),
        (
            {"non_compute_ops": ["torch.ops.aten.relu.default"],
             "allowed_single_node_partition_ops": ["torch.ops.aten.add.Tensor", "torch.ops.aten.mul.Tensor"]},
            [["add", "relu"], ["mul"]],
        ),
    ],
)  # fmt: skip
def test_partitions_with_one_operator_that_counts_need_permission_as_in_executorch(options, parts):
    graph_module = graph_of(lambda x: ((x + 1).relu().sin() * 2).sin().abs())
    assert proposed(graph_module, **options) == parts
    peer = pytest.importorskip("executorch.exir.backend.canonical_partitioners.group_partitioner")
    theirs = peer.GroupBasedPartitioner(graph_module, NoSine(), **options).propose_partitions()
    assert sorted(sorted(node.name for node in partition.nodes) for partition in theirs) == parts


def test_partitions_are_convex_and_acyclic_among_each_other():
    def crossing(x):  # without sines all would be one partition
        a, b = x + 1, x * 2
        return (a.sin() + b).relu(), (b.sin() * a).relu()

    parts = proposed(graph_of(crossing), allows_single_node_partition=True)
    assert parts == [["add", "mul"], ["add_1", "mul_1", "relu", "relu_1"]]


def test_two_partitions_never_wait_for_each_other():
    def knot(x):
        a, b = x + 1, x * 2
        return a.sin().exp(), b.sin().abs()

    parts = proposed(graph_of(knot), [["add", "abs_1"]], allows_single_node_partition=True)
    assert parts == [["abs_1", "add"], ["exp"], ["mul"]]  # exp waits for add, and abs for mul


def test_a_group_that_a_path_leaves_and_enters_again_is_refused():
    with pytest.raises(ValueError, match="the group mul, add cannot be one partition"):
        proposed(graph_of(lambda x: (x + 1).sin() * 2), [["mul", "add"]])

    def knot(x):
        a, b = x + 1, x * 2
        return a.sin().exp(), b.sin().abs()

    with pytest.raises(ValueError, match="perhaps through another group"):
        proposed(graph_of(knot), [["add", "abs_1"], ["mul", "exp"]])


def test_a_group_stays_together_without_what_is_not_supported():
    parts = proposed(graph_of(lambda x: (x + 1, (x * 2).sin())), [["add", "mul", "sin"]])
    assert parts == [["add", "mul"]]


def test_an_operator_alone_is_a_partition_only_if_allowed():
    graph_module = graph_of(lambda x: (x + 1).sin() * 2)
    assert proposed(graph_module) == []
    assert len(proposed(graph_module, allows_single_node_partition=True)) == 2
    name = torch.fx.node._get_qualified_name(torch.ops.aten.add.Tensor)
    assert proposed(graph_module, allowed_single_node_partition_ops=[name]) == [["add"]]


def test_the_results_of_a_call_are_in_its_partition():
    graph_module = graph_of(lambda x: x.split(2, 1)[0] + x.split(2, 1)[1])
    (part,) = proposed(graph_module, allows_single_node_partition=True)
    assert sum(node.target is operator.getitem for node in graph_module.graph.nodes) == 4 and len(part) >= 5


def test_a_node_in_two_groups_is_refused():
    with pytest.raises(ValueError, match="add exists in multiple groups"):
        proposed(graph_of(lambda x: x + 1), [["add"], ["add"]])


def test_several_methods_are_delegated_at_once(echo_backend):  # noqa: F811
    class Model(torch.nn.Module):
        def forward(self, x):
            return x + 1

    exported = torch.export.export(Model(), (torch.ones(2),))
    edge = to_edge({"a": exported, "b": exported})
    programs = {name: edge.exported_program(name) for name in ("a", "b")}
    lowered = to_backend(MethodProgramsPartitionerSpec(programs, {"a": echo_backend}))
    assert {name: len(delegates(program)) for name, program in lowered.items()} == {"a": 1, "b": 0}
    assert delegates(programs["a"]) == []
    assert len(delegates(to_backend(programs["b"], echo_backend))) == 1
    with pytest.raises(CompileError, match="'c'"):
        to_backend(MethodProgramsPartitionerSpec(programs, {"c": echo_backend}))
