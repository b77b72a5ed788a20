"""Graphs with open blobs."""

from __future__ import annotations

import itertools

import pytest
import torch

import edgecore
import edgecore.format as fmt
from edgecore.devtools import graph_of


class Residual(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.first(x))
        return torch.sort(x + self.second(y))[0]


def test_operations_of_an_open_blob_have_edges_modules_and_shapes() -> None:
    program = edgecore.compile(Residual().eval(), (torch.randn(4, 8),), backends=["xnnpack"])
    (method,) = graph_of(program.pte, blobs=True).methods
    names = {node.id: node.name for node in method.nodes}
    edges = {(names[edge.source], names[edge.target]) for edge in method.edges}
    assert {("x", "linear + relu"), ("linear + relu", "linear"), ("x", "add"), ("linear", "add")} <= edges
    assert any(source == "add" and target in ("sort", "topk") for source, target in edges)
    inside = {node.name: node for node in method.nodes if node.kind == "operation"}
    assert inside["linear"].module == "second" and inside["linear"].outputs == ["fp32 [4, 8]"]
    assert not any("delegate" in (names[edge.source], names[edge.target]) for edge in method.edges)


def test_a_blob_that_nobody_can_read_stays_closed() -> None:
    program = edgecore.compile(Residual().eval(), (torch.randn(4, 8),), backends=["xnnpack"])
    program.pte.program.execution_plan[0].delegates[0].id = "UnknownBackend"
    assert graph_of(program.pte, blobs=True).as_dict() == graph_of(program.pte).as_dict()


def test_a_graph_in_the_metadata_needs_no_backend() -> None:
    program = edgecore.compile(Residual().eval(), (torch.randn(4, 8),), backends=["xnnpack"])
    opened = graph_of(program.pte, blobs=True)
    meta = fmt.get_meta(program.pte)
    (delegate,) = meta.methods[0].delegates
    first, *rest = (fmt.GraphNode(one.id, one.name, "Step", [index], [index + 1])
                    for index, one in enumerate(delegate.operations))  # fmt: skip
    values = [fmt.GraphValue(1, "float32 [4, 8]")]
    delegate.details = bytes(fmt.pack(fmt.DelegateDetails([first, *rest], [0], [len(rest) + 1], values)))
    fmt.set_meta(program.pte, meta)
    program.pte.program.execution_plan[0].delegates[0].id = "UnknownBackend"
    (method,) = graph_of(program.pte, blobs=True).methods
    inside = [node for node in method.nodes if node.kind == "operation"]
    assert [node.operator for node in inside] != [] and inside[0].outputs == ["float32 [4, 8]"]
    assert [node.handles for node in inside] == [
        node.handles for node in opened.methods[0].nodes if node.kind == "operation" and node.handles
    ]
    assert {(edge.source, edge.target) for edge in method.edges} >= {
        (one.id, other.id) for one, other in itertools.pairwise(inside)
    }


def test_an_open_blob_without_metadata_keeps_its_operations() -> None:
    program = edgecore.compile(Residual().eval(), (torch.randn(4, 8),), backends=["xnnpack"])
    meta = fmt.get_meta(program.pte)
    meta.methods[0].delegates.clear()
    fmt.set_meta(program.pte, meta)
    (method,) = graph_of(program.pte, blobs=True).methods
    inside = [node for node in method.nodes if node.kind == "operation"]
    assert inside and not any(node.handles for node in inside)


def test_a_backend_that_fails_on_a_blob_leaves_it_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = pytest.importorskip("edgecore_xnnpack.compiler").XnnpackCompiler
    program = edgecore.compile(Residual().eval(), (torch.randn(4, 8),), backends=["xnnpack"])
    monkeypatch.setattr(compiler, "blob_graph", lambda *args: {}["lost"])
    assert graph_of(program.pte, blobs=True).as_dict() == graph_of(program.pte).as_dict()
