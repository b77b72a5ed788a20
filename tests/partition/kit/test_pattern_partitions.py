"""Partitions by operators, by nodes and by patterns."""

import pytest
import torch
from edge_programs import edge_of
from torch.fx.passes.operator_support import any_chain

from edgecore.ir.graph import calls
from edgecore.partition import (
    create_op_support,
    create_pattern_support,
    generate_partitions_from_list_of_nodes,
    generate_pattern_op_partitions,
)

aten = torch.ops.aten
X, Y = torch.randn(3), torch.randn(3)


def graph_module():
    return edge_of(lambda self, x, y: torch.sin(torch.tanh(x) + y) * y, X, Y).graph_module


def pattern():
    return edge_of(lambda self, x, y: torch.sin(x + y), X, Y).graph_module.graph


def names(partitions):
    return sorted(sorted(node.name for node in partition.nodes) for partition in partitions)


def test_a_pattern_and_supported_operators_make_one_partition():
    support = create_op_support([aten.mul.Tensor])
    assert names(generate_pattern_op_partitions(graph_module(), patterns=[pattern()])) == [["add", "sin"]]
    assert names(generate_pattern_op_partitions(graph_module(), [pattern()], op_support=support)) == [
        ["add", "mul", "sin"]
    ]
    assert names(generate_pattern_op_partitions(graph_module(), op_support=support)) == [["mul"]]


def test_numbers_in_a_pattern_match_any_number_if_they_are_ignored():
    graph = edge_of(lambda self, x: torch.sin(x * 2.0) * 3.0, X).graph_module
    tripled = edge_of(lambda self, x: x * 3.0, X).graph_module.graph
    assert names(generate_pattern_op_partitions(graph, [tripled])) == [["mul_scalar_1"]]
    ignoring = generate_pattern_op_partitions(graph, [tripled], ignore_literals=True)
    assert names(ignoring) == [["mul_scalar"], ["mul_scalar_1"]]


def test_listed_nodes_that_are_apart_make_partitions_of_their_own():
    graph = graph_module()
    tanh, _, _, mul = calls(graph)
    assert names(generate_partitions_from_list_of_nodes(graph, [[tanh], [mul]])) == [["mul"], ["tanh"]]
    assert names(generate_pattern_op_partitions(graph, partitions_list=[[tanh]])) == [["tanh"]]
    both = any_chain(create_pattern_support([[tanh]]), create_op_support([aten.add.Tensor]))
    assert names(generate_partitions_from_list_of_nodes(graph, op_support=both)) == [["add", "tanh"]]


def test_partitions_of_nothing_are_an_error():
    with pytest.raises(ValueError, match="nothing says which nodes belong to partitions"):
        generate_pattern_op_partitions(graph_module())
