"""The extension of Model Explorer, called as its server does."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest
import torch

import edgecore

pytest.importorskip("model_explorer")
from edgecore.devtools.model_explorer import visualize
from edgecore.devtools.model_explorer.main import PROFILE, TRACE, PteAdapter, Times


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sort(self.second(torch.relu(self.first(x))))[0]


@pytest.fixture(scope="module", params=["kernels", "xnnpack"])
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "model.pte"
    backends = [] if request.param == "kernels" else [request.param]
    edgecore.compile(Net().eval(), (torch.randn(2, 8),), backends=backends).save(path)
    return path


def test_a_file_becomes_a_graph_with_modules_and_edges(file: Path) -> None:
    (graph,) = PteAdapter().convert(str(file), {})["graphs"]
    assert graph.id == "forward"
    ids = [node.id for node in graph.nodes]
    assert len(set(ids)) == len(ids)
    assert {"first", "second"} <= {node.namespace for node in graph.nodes}
    edges = [(edge.sourceNodeId, node.id) for node in graph.nodes for edge in node.incomingEdges]
    assert edges and all(source in ids for source, _ in edges)
    assert graph.nodes[-1].incomingEdges and graph.nodes[-1].label == "output_0"


def test_times_are_those_of_nodes_of_the_graph(file: Path, tmp_path: Path) -> None:
    (graph,) = PteAdapter().convert(str(file), {})["graphs"]
    program = edgecore.load(file, trace=True)
    program.forward(numpy.zeros((2, 8), numpy.float32))
    program.write_trace(tmp_path / "runs.etdp")
    settings = {PROFILE: {"runs": "3", "threads": 1}, TRACE: {"file": str(tmp_path / "runs.etdp")}}
    for provider, values in settings.items():
        assert Times().get_config_editors(provider).configEditors
        found = Times().run(provider, str(file), "forward", values, graph)
        assert found.error == ""
        ids = {node.id for node in graph.nodes if node.label not in ("x", "output_0")}
        assert set(found.result.results) <= ids and len(found.result.results) >= 3
        assert all(one.value >= 0 for one in found.result.results.values())


def test_an_error_is_a_sentence_in_the_page(file: Path) -> None:
    found = Times().run(TRACE, str(file), "forward", {"file": "no.etdp"}, None)
    assert "no.etdp" in found.error and found.result is None


@pytest.mark.parametrize("kind", ["compiled", "exported"])
def test_a_program_opens_with_a_cluster_for_each_partition(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import model_explorer

    opened: list[tuple[object, dict[str, object]]] = []
    monkeypatch.setattr(
        model_explorer, "visualize_from_config", lambda config, **server: opened.append((config, server))
    )
    x = torch.randn(2, 8)
    compiled = edgecore.compile(Net().eval(), (x,), backends=["xnnpack"])
    sort = "topk.default" if kind == "compiled" else "sort.default"
    visualize(compiled if kind == "compiled" else torch.export.export(Net().eval(), (x,)), port=8081)
    ((config, server),) = opened
    assert server == {"port": 8081}
    ((graph,),) = [made["graphs"] for made in config.graphs_list]
    clusters = {node.namespace.partition("/")[0] for node in graph.nodes if node.namespace}
    assert clusters == ({"XnnpackBackend 0", "edgecore"} if kind == "compiled" else {"edgecore"})
    ids = {node.id for node in graph.nodes}
    edges = [(edge.sourceNodeId, node.id) for node in graph.nodes for edge in node.incomingEdges]
    assert len(edges) >= 3 and all(source in ids for source, _ in edges)
    assert {"x", sort} <= {node.label for node in graph.nodes}
