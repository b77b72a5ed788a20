"""Delegated graphs and maps of delegates, as executorch's functions give them."""

from __future__ import annotations

import pytest
import torch

import edgecore
from edgecore.devtools import (
    DelegateMappingBuilder,
    DelegationBreakdown,
    format_delegated_graph,
    get_delegation_info,
    inspect_node,
    print_delegated_graph,
    print_delegation_info,
)


@pytest.fixture
def graph_module() -> torch.fx.GraphModule:
    partitioner = pytest.importorskip("edgecore_xnnpack.partitioner").XnnpackPartitioner()
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4)).eval()
    exported = torch.export.export(model, (torch.randn(2, 4),))
    return edgecore.to_edge_transform_and_lower(exported, partitioner=[partitioner]).exported_program().graph_module


def test_nodes_in_delegates_are_counted_as_by_executorch(graph_module: torch.fx.GraphModule) -> None:
    info = get_delegation_info(graph_module)
    assert info.num_delegated_subgraphs == 1
    assert "Total delegated subgraphs: 1\nNumber of delegated nodes:" in info.get_summary()
    frame = info.get_operator_delegation_dataframe()
    assert list(frame.iloc[-1]) == ["Total", info.num_delegated_nodes, info.num_non_delegated_nodes]
    peer = pytest.importorskip("executorch.devtools.backend_debug").get_delegation_info(graph_module)
    assert peer.num_delegated_subgraphs == 1
    assert peer.num_delegated_nodes == info.num_delegated_nodes == 3
    theirs = {row.op_type: row.delegated for row in peer.delegation_by_operator.values() if row.delegated}
    assert {row.op_type: row.delegated for row in info.delegation_by_operator.values() if row.delegated} == theirs
    made = DelegationBreakdown(op_type="linear", delegated=2, non_delegated=0)
    assert made in info.delegation_by_operator.values()


def test_a_node_is_shown_in_its_graph_with_its_lines_of_code() -> None:
    exported = torch.export.export(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), (torch.randn(2, 4),))
    node = next(node for node in exported.graph.nodes if node.name == "relu")
    text = inspect_node(exported.graph, node)
    (line,) = (line for line in text.splitlines() if line.startswith("--> "))
    assert line.startswith("--> %relu")
    assert "This node relu has metadata of:" in text
    assert "in forward" in text.partition("The node stacktrace:")[2]
    peer = pytest.importorskip("executorch.exir.print_program").inspect_node(exported.graph, node)
    assert [line[:9] for line in text.splitlines()[:6]] == [line[:9] for line in peer.splitlines()[:6]]


def test_numbers_of_delegated_nodes_are_printed(
    graph_module: torch.fx.GraphModule, capsys: pytest.CaptureFixture[str]
) -> None:
    print_delegation_info(graph_module)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Total delegated subgraphs: 1"
    assert lines[-1].split() == ["Total", "3", str(get_delegation_info(graph_module).num_non_delegated_nodes)]


def test_a_delegated_graph_is_shown_with_what_its_delegates_compute(
    graph_module: torch.fx.GraphModule, capsys: pytest.CaptureFixture[str]
) -> None:
    text = format_delegated_graph(graph_module)
    assert "backend_id: XnnpackBackend\n    lowered graph():" in text
    assert "relu" in text
    print_delegated_graph(graph_module)
    assert capsys.readouterr().out == text + "\n"
    assert pytest.importorskip("executorch.exir.backend.utils").format_delegated_graph(graph_module) == text


def test_a_mapping_is_built_from_nodes_or_handles() -> None:
    graph = torch.fx.Graph()
    nodes = [graph.placeholder(name) for name in "ab"]
    nodes[0].meta["debug_handle"] = 7
    builder = DelegateMappingBuilder()
    assert builder.insert_delegate_mapping_entry(nodes=nodes, identifier="fused") == "fused"
    builder.insert_delegate_mapping_entry(handles=[9, None, 8], identifier=3)
    assert builder.get_delegate_mapping() == {"fused": (7,), 3: (8, 9)}
    generated = DelegateMappingBuilder(generated_identifiers=True)
    assert [generated.insert_delegate_mapping_entry(handles=handle) for handle in (5, 6)] == [0, 1]
    assert generated.get_delegate_mapping() == {0: (5,), 1: (6,)}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"identifier": 1}, "exactly one of nodes and handles"),
        ({"handles": 1}, "identifier is missing"),
        ({"handles": 1, "identifier": "there"}, "was added already"),
        ({"handles": [None], "identifier": 1}, "no node has a debug handle"),
    ],
)
def test_a_wrong_entry_of_a_mapping_is_an_error(arguments: dict[str, object], words: str) -> None:
    builder = DelegateMappingBuilder()
    builder.insert_delegate_mapping_entry(handles=1, identifier="there")
    with pytest.raises(ValueError, match=words):
        builder.insert_delegate_mapping_entry(**arguments)  # type: ignore[arg-type]
