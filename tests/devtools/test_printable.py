"""Names from a model that would control a terminal: none of the text tables lets them through."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch

import edgecore
from edgecore.devtools import Inspector, Step, Suggestion, diff, graph_of, inspect_node, profile
from edgecore.devtools.file_arguments import program_file
from edgecore.devtools.memory.text import describe_memory, memory_text
from edgecore.devtools.printable import join_lines, printable
from edgecore.devtools.track import Entry, history_text
from edgecore.format import PteFile, get_meta, set_meta, write_pte

HOSTILE = "a\x1b]0;owned\x07\x1b[31m\nb\u202e[bold]"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file whose modules, lines and operators have hostile names."""
    path = tmp_path_factory.mktemp("printable") / "model.pte"
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh()).eval()
    edgecore.compile(model, (torch.zeros(2, 4),), backends=[]).save(path)
    pte: PteFile = program_file(path)
    meta = get_meta(pte)
    assert meta is not None
    for node in meta.methods[0].debug_handles:
        node.module_path = node.source = HOSTILE
        node.operator_name = f"aten.{HOSTILE}.default"
    for value in (*meta.methods[0].inputs, *meta.methods[0].outputs):
        value.name = HOSTILE
    set_meta(pte, meta)
    path.write_bytes(write_pte(pte))
    return path


def check(text: str) -> None:
    assert text.replace("\n", "").isprintable()
    assert "\nb" not in text
    assert "\\x1b]0;owned" in text


def test_what_is_not_printable_becomes_an_escape() -> None:
    assert printable("conv [3] é") == "conv [3] é"
    assert printable(HOSTILE) == "a\\x1b]0;owned\\x07\\x1b[31m\\nb\\u202e[bold]"
    assert printable("\ud800") == "\\ud800"
    assert join_lines(["a\nb", "c"]) == "a\\nb\nc"


def test_no_table_lets_control_characters_through(file: Path, tmp_path: Path) -> None:
    found = profile(file, torch.zeros(2, 4), runs=2, warmup=0)
    for by in ("operator", "module", "line"):
        check(found.table(by, width=140))
    check(graph_of(file).text())
    check(memory_text(describe_memory(program_file(file))))
    edgecore.compile(torch.nn.Tanh().eval(), (torch.zeros(2, 4),), backends=[]).save(tmp_path / "other.pte")
    check(diff(file, tmp_path / "other.pte").text())
    found.trace.save(tmp_path / "runs.etdp")
    text = io.StringIO()
    Inspector(etdump_path=str(tmp_path / "runs.etdp"), program=file).print_data_tabular(text)
    check(text.getvalue())


def test_suggestions_and_graphs_are_shown_as_escapes() -> None:
    step = Step((HOSTILE,), 1.0, True, 10)
    check(str(Suggestion(edgecore.Recipe("int8"), 1.0, 0.5, 1.0, True, 2, 1, (10, 12), steps=[step])))
    graph = torch.fx.Graph()
    node = graph.call_function(torch.add, (graph.placeholder("x"), HOSTILE))
    node.meta["stack_trace"] = HOSTILE.replace("\n", "")
    check(inspect_node(graph, node))


def test_labels_of_a_history_are_shown_as_escapes() -> None:
    figures: dict[str, int | None] = {"file_bytes": 1, "planned_bytes": 2, "kernels": 3}
    text = history_text([Entry("a.pte", HOSTILE, "2026-01-01", "processor", figures)], "a.pte")
    check(text)
