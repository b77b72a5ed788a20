"""The compiler: reports, descriptions, kept files and checks."""

from __future__ import annotations

import re

import pytest
from vgf_models import SUB_INPUTS, Sub, blob_of, compiled, sub_file

import edgecore
from edgecore.errors import FallbackWarning
from edgecore_tosa.graph import Graph
from edgecore_vgf.compiler import VgfCompiler


def test_a_description_names_the_graph_and_its_tensors():
    lines = VgfCompiler().describe_blob(blob_of(sub_file()), {})
    assert re.fullmatch(r"VGF 0\.5\.0, graph \w+: [\d,]+ bytes of SPIR-V", lines[0])
    assert lines[1:] == [
        "input 0: float32[3, 4], 48 bytes",
        "input 1: float32[1, 4], 16 bytes",
        "output 0: float32[3, 4], 48 bytes",
    ]


def test_the_report_has_a_line_for_each_delegate():
    assert "delegate 0: VGF 0.5.0, " in str(compiled(Sub(), SUB_INPUTS).report())


def test_intermediate_files_are_kept_also_if_the_converter_refuses_a_graph(monkeypatch, tmp_path):
    program = compiled(Sub(), SUB_INPUTS, dump_intermediate_artifacts_to=str(tmp_path))
    (folder,) = tmp_path.iterdir()
    assert (folder / "graph.vgf").read_bytes() in bytes(program.buffer)
    assert "VGF" in (folder / "converter.log").read_text()
    monkeypatch.setattr(Graph, "to_bytes", lambda graph: b"no graph")
    backend = edgecore.Backend("vgf", dump_intermediate_artifacts_to=str(tmp_path / "refused"))
    with pytest.warns(FallbackWarning, match="Arm's model converter cannot convert the TOSA graph"):
        edgecore.compile(Sub().eval(), SUB_INPUTS, backends=[backend])
    (folder,) = (tmp_path / "refused").iterdir()
    assert (folder / "graph.tosa").read_bytes() == b"no graph"


def test_nothing_is_missing_on_this_machine():
    assert list(VgfCompiler().check()) == []
