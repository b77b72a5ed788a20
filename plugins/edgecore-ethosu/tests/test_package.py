"""Test the installed package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch

import edgecore
from edgecore.sdk import operators_markdown, options_markdown
from edgecore_ethosu.compiler import EthosuCompiler

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_running_a_file_imports_no_torch(tmp_path):
    class Add(torch.nn.Module):
        def forward(self, a, b):
            return a + b

    path = tmp_path / "model.pte"
    edgecore.compile(Add().eval(), (torch.ones(2), torch.ones(2)), backends=["ethosu"]).save(path)
    code = f"""
import array, sys, edgecore
values = memoryview(array.array("f", [1, 2]))
print(edgecore.load({str(path)!r}).forward(values, values).tolist())
assert not {{"torch", "pydantic"}} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[2.0, 4.0]", done.stderr


def test_the_tables_of_the_readme_are_those_of_the_code():
    """To fix a failure, paste the output of `edgecore backends ethosu --markdown` into README.md."""
    assert options_markdown(EthosuCompiler.Options) in README
    assert operators_markdown(EthosuCompiler().operator_support()) in README


def test_the_example_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    example = README.partition("```python\n")[2].partition("```")[0]
    exec(example, {"__name__": "readme"})
    assert (tmp_path / "model.pte").is_file()


def test_nothing_is_missing_on_this_machine():
    assert list(EthosuCompiler().check()) == []
