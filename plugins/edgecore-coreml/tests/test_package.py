"""The installed package: README, checks, damaged packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from edgecore.errors import FormatError
from edgecore.plugin.diagnosis.doctor import diagnose
from edgecore.sdk import operators_markdown, options_markdown
from edgecore_coreml import backend
from edgecore_coreml.compiler import CoreMLCompiler
from edgecore_coreml.package.blob import read_blob, write_blob
from edgecore_coreml.package.files import Package, State, pack, unpack

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
OPERATORS = (ROOT / "docs/operators.md").read_text(encoding="utf-8")
PACKAGE = Package(b"specification", b"weights", ("x",), ("y",))


def test_the_tables_of_options_and_operators_are_those_of_the_code():
    """If this fails, replace the tables of README.md and docs/operators.md by what `edgecore backends coreml --markdown` prints."""
    assert options_markdown(CoreMLCompiler.Options) in README
    assert operators_markdown(CoreMLCompiler().operator_support()) in OPERATORS


def test_the_example_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "readme"}
    exec(README.partition("```python\n")[2].partition("```")[0], names)
    assert (tmp_path / "model.pte").is_file() and "1 x CoreMLBackend" in str(names["program"].report())


def test_the_check_imports_no_coremltools(tmp_path):
    """Its import takes many seconds from a cold disk, longer than `edgecore doctor` waits."""
    code = """
import sys
from edgecore_coreml.compiler import CoreMLCompiler
assert CoreMLCompiler().check() == []
assert "coremltools" not in sys.modules
"""
    variables = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=variables, check=True)
    assert not (tmp_path / "edgecore").exists()  # where a child process with the import keeps its result


def test_doctor_says_what_a_mac_is_needed_for(monkeypatch):
    rows = {finding.check: finding.detail for diagnosis in diagnose("coreml") for finding in diagnosis.findings}
    assert rows["coremltools"].startswith("9.")
    monkeypatch.setattr("platform.mac_ver", lambda: ("", ("", "", ""), ""))
    assert backend.self_test()[1][2].startswith("only a Mac, an iPhone or an iPad runs the models")
    monkeypatch.setattr("platform.mac_ver", lambda: ("15.1", ("", "", ""), "arm64"))
    assert backend.self_test()[1][2] == "macOS 15.1 runs the models"


def test_a_package_survives_its_blob():
    for package in (PACKAGE, replace(PACKAGE, states=(State("cache.k", "cache_k", "float32", (1, 8, 4)),))):
        assert unpack(pack(package), {}) == package
    assert json.loads(read_blob(pack(PACKAGE), {})["metadata.json"])["identifier"].startswith("edgecore_")


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (b"", "metadata.json has no names of inputs and outputs"),
        (b"[1]", "metadata.json has no names of inputs and outputs"),
        (b'{"inputNames": [1], "outputNames": []}', "has a name that is no text"),
        (b'{"inputNames": ["x", "x"], "outputNames": []}', "has the same input twice"),
        (b'{"inputNames": [], "inputNames": [], "outputNames": []}', "has no names of inputs and outputs"),
        (b'{"inputNames": [' + b" " * 2_000_000 + b'], "outputNames": []}', "has no names of inputs and outputs"),
        (b'{"inputNames": [], "outputNames": [], "edgecoreStates": [{}]}', "has a state without names"),
    ],
)
def test_damaged_metadata_is_rejected(metadata, message):
    blob = write_blob(read_blob(pack(PACKAGE), {}) | {"metadata.json": metadata})
    with pytest.raises(FormatError, match=message):
        CoreMLCompiler().verify_blob(blob, {}, runtime="edgecore")


def test_a_model_that_is_no_specification_is_rejected():
    with pytest.raises(FormatError, match="no specification of Core ML"):
        CoreMLCompiler().describe_blob(pack(PACKAGE), {})
    with pytest.raises(FormatError, match="has neither model.mlpackage/.* nor model.mlmodelc"):
        unpack(write_blob({"metadata.json": b"{}"}), {})
