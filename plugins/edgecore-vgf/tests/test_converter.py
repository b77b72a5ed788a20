"""The converter: VGF files of TOSA graphs, its errors, and what a compilation keeps."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest
from vgf_models import SUB_INPUTS, Sub, compiled

from edgecore.errors import CompileError
from edgecore_vgf import converter
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
