"""The installed package: imports, the search for OpenVINO's library, README."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import edgecore
from edgecore.sdk import operators_markdown, options_markdown
from edgecore_openvino import backend
from edgecore_openvino.compiler import INSTALL, OpenvinoCompiler

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
OPERATORS = (ROOT / "docs/operators.md").read_text(encoding="utf-8")


class Add(torch.nn.Module):
    def forward(self, a, b):
        return a + b


@pytest.fixture
def pte(tmp_path) -> Path:
    path = tmp_path / "model.pte"
    edgecore.compile(Add().eval(), (torch.ones(2), torch.ones(2)), backends=["openvino"]).save(path)
    return path


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_running_a_file_imports_neither_torch_nor_openvino(pte):
    done = run(f"""
import array, sys, edgecore
values = memoryview(array.array("f", [1, 2]))
print(edgecore.load({str(pte)!r}).forward(values, values).tolist())
assert not {{"torch", "pydantic", "openvino"}} & set(sys.modules)
""")
    assert done.stdout.strip() == "[2.0, 4.0]", done.stderr


def test_a_missing_openvino_is_explained(pte):
    done = run(f"""
import edgecore, edgecore_openvino.backend
edgecore_openvino.backend.openvino_library = lambda: None
edgecore.load({str(pte)!r})
""")
    assert "OpenVINO was not found" in done.stderr and INSTALL.split('"')[1] in done.stderr


@pytest.mark.parametrize(
    ("library", "sentence"),
    [
        ("/no/libopenvino_c.so", "cannot be loaded: /no/libopenvino_c.so"),
        ("libopenvino_c.so", "no absolute path: libopenvino_c.so"),
        (backend.native_library(), "has no function ov_"),
    ],
)
def test_a_library_that_is_not_openvino_is_refused(pte, library, sentence):
    done = run(f"import edgecore; edgecore.load({str(pte)!r}, options={{'openvino': {{'library': {library!r}}}}})")
    assert done.returncode == 1 and sentence in done.stderr


def test_a_second_openvino_is_refused(pte):
    with_another = {"openvino": {"library": "/another/libopenvino_c.so"}}
    edgecore.load(pte)
    with pytest.raises(edgecore.errors.ExecutionError, match="has opened OpenVINO in .*libopenvino_c.*another"):
        edgecore.load(pte, options=with_another)


def test_the_check_of_the_package_names_what_is_missing(monkeypatch):
    compiler = OpenvinoCompiler()
    assert list(compiler.check()) == []
    monkeypatch.setattr("edgecore_openvino.compiler.openvino_library", lambda: None)
    (problem,) = compiler.check()
    assert problem.remedy == INSTALL


def test_the_current_directory_is_not_searched(monkeypatch, tmp_path):
    (tmp_path / "openvino" / "libs").mkdir(parents=True)
    (tmp_path / "openvino" / "libs" / "libopenvino_c.so.9999").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), *sys.path])
    found = backend.openvino_library()
    assert found and Path(found).is_absolute() and not found.startswith(str(tmp_path))


def test_the_delegate_links_nothing_of_openvino():
    library = Path(backend.native_library())
    assert library.stat().st_size < 1_000_000
    assert b"libopenvino.so" not in library.read_bytes()


def test_the_tables_of_options_and_operators_are_those_of_the_code():
    """If this fails, replace the tables of README.md and docs/operators.md by what `edgecore backends openvino --markdown` prints."""
    assert options_markdown(OpenvinoCompiler.Options) in README
    assert operators_markdown(OpenvinoCompiler().operator_support()) in OPERATORS


def test_the_example_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    example = README.partition("```python\n")[2].partition("```")[0]
    exec(example, {"__name__": "readme"})
    assert (tmp_path / "model.pte").is_file()
