"""Test the installed package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch

import edgecore
from edgecore.sdk import operators_markdown, options_markdown
from edgecore_vulkan.compiler import VulkanCompiler

PACKAGE = Path(__file__).parents[1]
README = (PACKAGE / "README.md").read_text(encoding="utf-8")


def test_running_a_file_imports_no_torch(tmp_path):
    class Add(torch.nn.Module):
        def forward(self, a, b):
            return a + b

    path = tmp_path / "model.pte"
    edgecore.compile(Add().eval(), (torch.ones(2), torch.ones(2)), backends=["vulkan"]).save(path)
    code = f"""
import array, sys, edgecore
values = memoryview(array.array("f", [1, 2]))
print(edgecore.load({str(path)!r}).forward(values, values).tolist())
assert not {{"torch", "pydantic"}} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[2.0, 4.0]", done.stderr


def test_the_tables_of_the_pages_are_those_of_the_code():
    """To fix a failure, paste the output of `edgecore backends vulkan --markdown` into README.md and docs/operators.md."""
    operators = (PACKAGE / "docs" / "operators.md").read_text(encoding="utf-8")
    assert options_markdown(VulkanCompiler.Options) in README
    assert operators_markdown(VulkanCompiler().operator_support()) in operators


def test_the_examples_of_the_readme_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "readme"}
    for block in README.split("```python\n")[1:]:
        exec(block.partition("```")[0], names)
    assert (tmp_path / "model.pte").is_file()
    torch.testing.assert_close(names["difference"], torch.zeros(1, 8), rtol=0, atol=1e-2)


def test_nothing_is_missing_on_this_machine():
    assert list(VulkanCompiler().check()) == []
