"""Partitions become blobs, and the files of a compilation are kept."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ethosu_models import CONV_INPUTS, Conv, compiled, conv_tosa

import edgecore
from edgecore.errors import FallbackWarning
from edgecore_ethosu import lowering
from edgecore_ethosu.blob import write_blob
from edgecore_ethosu.options import EthosUOptions
from edgecore_ethosu.vela.compile import compile_tosa


def test_arguments_that_vela_changes_are_an_error(monkeypatch, tmp_path):
    result = compile_tosa(conv_tosa(tmp_path), EthosUOptions())
    other = replace(result, program=replace(result.program, inputs=()))
    monkeypatch.setattr(lowering, "compile_tosa", lambda *args, **kwargs: other)
    with pytest.warns(FallbackWarning, match=r"Vela changed the inputs of the delegate: sizes of \[\] bytes .* \[72\]"):
        edgecore.compile(Conv().eval(), CONV_INPUTS, backends=["ethosu"])


def test_intermediate_files_are_kept(tmp_path):
    program = compiled(Conv(), CONV_INPUTS, dump_intermediate_artifacts_to=str(tmp_path))
    (folder,) = tmp_path.iterdir()
    blob = (folder / "delegate.bin").read_bytes()
    assert blob in bytes(program.buffer)
    assert write_blob(compile_tosa((folder / "graph.tosa").read_bytes(), EthosUOptions()).program) == blob
