"""The converter: VGF files of TOSA graphs, its errors, and what a compilation keeps."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import PackageNotFoundError

import pytest
from vgf_models import SUB_INPUTS, Sub, compiled

import edgecore
from edgecore.errors import CompileError, FallbackWarning
from edgecore_tosa.graph import Graph
from edgecore_vgf import converter, lowering
from edgecore_vgf.compiler import VgfCompiler
from edgecore_vgf.converter import convert
from edgecore_vgf.vgf import read_vgf


@pytest.fixture(scope="module")
def tosa(tmp_path_factory) -> bytes:
    folder = tmp_path_factory.mktemp("tosa")
    compiled(Sub(), SUB_INPUTS, dump_intermediate_artifacts_to=str(folder))
    (graph,) = folder.glob("*/graph.tosa")
    return graph.read_bytes()


def test_equal_graphs_give_equal_files(tosa):
    blob = convert(tosa)
    assert convert(tosa) == blob
    assert [tensor.shape for tensor in read_vgf(blob).inputs] == [(3, 4), (1, 4)]


def test_flags_are_passed_to_the_converter(tosa):
    assert read_vgf(convert(tosa, ["--emit-debug-info"])).code_size > read_vgf(convert(tosa)).code_size


def test_the_message_of_the_converter_is_kept(tosa):
    with pytest.raises(
        CompileError, match=r"Arm's model converter cannot convert the TOSA graph: ERROR: .* is not compatible"
    ):
        convert(tosa[:-200] + bytes(200))
    with pytest.raises(CompileError, match="cannot convert the TOSA graph: .*--no-such-flag"):
        convert(tosa, ["--no-such-flag"])


def missing(name: str) -> str:
    raise PackageNotFoundError(name)


@pytest.mark.parametrize(
    ("version", "sentence"),
    [
        (missing, "Arm's model converter, which makes VGF files, is not installed"),
        (lambda name: "0.9.0", "Arm's model converter 0.9.0 is installed, and edgecore-vgf is tested with 0.11"),
    ],
)
def test_a_missing_or_old_converter_is_one_sentence_with_a_command(monkeypatch, tosa, version, sentence):
    monkeypatch.setattr(converter, "version", version)
    with pytest.raises(CompileError, match=sentence) as caught:
        convert(tosa)
    assert str(caught.value).endswith(converter.INSTALL)
    (problem,) = VgfCompiler().check()
    assert sentence in problem.what and problem.remedy == converter.INSTALL


def test_a_package_without_its_program_is_an_error(monkeypatch, tosa):
    monkeypatch.setattr(converter, "installed_file", lambda *parts: None)
    with pytest.raises(CompileError, match="the package ai-ml-sdk-model-converter lacks its program"):
        convert(tosa)


def test_arguments_that_the_converter_changes_are_an_error(monkeypatch, tosa):
    vgf = read_vgf(convert(tosa))
    monkeypatch.setattr(lowering, "read_vgf", lambda blob: replace(vgf, inputs=vgf.inputs[::-1]))
    with pytest.warns(FallbackWarning, match=r"the converter changed the inputs of the delegate: float32\[1, 4\]"):
        edgecore.compile(Sub().eval(), SUB_INPUTS, backends=["vgf"])


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
