"""`edgecore graph`: a tree of modules, and JSON."""

from __future__ import annotations

import json

from command_line import one_sentence


def test_the_graph_of_a_file_is_text_and_json(edgecore, pte, tmp_path):
    out = tmp_path / "graph.json"
    result = edgecore("graph", pte, "--json", out)
    assert result.status == 0, result.err
    assert "forward/1 delegate FooBackend" in result.out
    assert "relu" in result.out
    found = json.loads(out.read_text())
    assert (found["file"], found["schema"], found["complete"]) == ("model.pte", "edgecore.graph.v1", False)
    assert set(found["methods"][0]) == {"name", "nodes", "edges", "groups"}


def test_a_file_of_weights_has_no_graph(edgecore, ptd):
    one_sentence(edgecore("graph", ptd), "only holds weights")
