"""The installed package: README, checks, versions, the search for the emulation layer."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from edgecore.sdk import operators_markdown, options_markdown
from edgecore_vgf.compiler import VgfCompiler

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_tables_of_the_readme_are_those_of_the_code():
    """If this fails, replace the tables of the README by what `edgecore backends vgf --markdown` prints."""
    assert options_markdown(VgfCompiler.Options) in README
    assert operators_markdown(VgfCompiler().operator_support()) in README


@pytest.mark.usefixtures("device")
def test_the_examples_of_the_readme_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "readme"}
    for block in README.split("```python\n")[1:]:
        exec(block.partition("```")[0], names)
    assert (tmp_path / "model.pte").is_file() and "1 x VgfBackend" in str(names["program"].report())
    torch.testing.assert_close(names["result"], names["model"](*names["example"]), rtol=0, atol=1e-4)
