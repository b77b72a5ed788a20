"""Lines about its delegates that a backend's compiler adds to the report."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from fake_backends import SilentCompiler

from edgecore.pipeline import preprocess
from edgecore.plugin import PreprocessResult


class Speaking(SilentCompiler):
    def report_lines(self, results):
        return [f"{len(results)} blobs, {sum(len(result.blob) for result in results)} bytes <estimated>"]


class Failing(SilentCompiler):
    def report_lines(self, results):
        raise ValueError("no cycles today")


@pytest.mark.parametrize(
    ("compiler", "lines"),
    [
        (SilentCompiler(), []),
        (Speaking(), ["2 blobs, 3 bytes <estimated>"]),
        (Failing(), ["no report: ValueError: no cycles today"]),
    ],
)
def test_lines_of_a_compiler_or_its_failure_are_reported(monkeypatch, compiler, lines):
    monkeypatch.setattr(preprocess.registry, "find", lambda backend_id: SimpleNamespace(name=backend_id))
    monkeypatch.setattr(preprocess, "compiler_of", lambda info: compiler)
    assert preprocess.report_lines("ToyBackend", [PreprocessResult(b"a"), PreprocessResult(b"bc")]) == lines
