"""The installed package: README, checks, the search for libraries."""

from __future__ import annotations

from pathlib import Path

import torch

from edgecore.sdk import operators_markdown, options_markdown
from edgecore_qnn import backend, compiler
from edgecore_qnn.compiler import QnnCompiler

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
OPERATORS = (ROOT / "docs/operators.md").read_text(encoding="utf-8")


def test_the_tables_of_options_and_operators_are_those_of_the_code():
    """If this fails, replace the tables of README.md and docs/operators.md by what `edgecore backends qnn --markdown` prints."""
    assert options_markdown(QnnCompiler.Options) in README
    assert operators_markdown(QnnCompiler().operator_support()) in OPERATORS


def test_the_examples_of_the_readme_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "readme"}
    for block in README.split("```python\n")[1:]:
        exec(block.partition("```")[0], names)
    assert (tmp_path / "model.pte").is_file() and "1 x QnnBackend" in str(names["program"].report())
    torch.testing.assert_close(names["result"], names["model"](*names["example"]), rtol=0, atol=0.1)


def test_the_check_of_the_package_names_what_is_missing(monkeypatch):
    assert list(QnnCompiler().check()) == []
    monkeypatch.setattr(compiler, "runtime_library", lambda: None)
    monkeypatch.setattr(compiler, "provider_library", lambda: None)
    runtime, provider = QnnCompiler().check()
    assert runtime.remedy == provider.remedy == 'pip install "edgecore-qnn[run]"'


def test_the_load_options_name_files_and_the_sdk_that_exist():
    options = backend.load_options()
    assert Path(options["onnxruntime"]).is_file() and Path(options["provider"]).is_file()
    assert options["sdk_version"].count(".") == 2


def test_the_doctor_names_versions_and_the_licence():
    rows = {row[0]: row for row in backend.self_test()}
    assert rows["packages"][1] and "onnxruntime-qnn 2." in rows["packages"][2]
    assert rows["licence"][1] and "Qualcomm_LICENSE.pdf" in rows["licence"][2]
    assert rows["device"][1] and "emulator" in rows["device"][2]
