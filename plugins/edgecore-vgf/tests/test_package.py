"""The README, and the pages of operators and quantization."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from edgecore.sdk import operators_markdown, options_markdown
from edgecore_vgf.compiler import VgfCompiler

ROOT = Path(__file__).parents[1]
README, OPERATORS, QUANTIZATION = (
    (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/operators.md", "docs/quantization.md")
)


def test_the_tables_of_the_readme_and_of_the_operators_are_those_of_the_code():
    """If this fails, replace the tables by the output of `edgecore backends vgf --markdown`."""
    assert options_markdown(VgfCompiler.Options) in README
    assert operators_markdown(VgfCompiler().operator_support()) in OPERATORS


@pytest.mark.usefixtures("device")
def test_the_examples_of_the_readme_and_of_quantization_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "readme"}
    for block in (README + QUANTIZATION).split("```python\n")[1:]:
        exec(block.partition("```")[0], names)
    assert (tmp_path / "model.pte").is_file() and "1 x VgfBackend" in str(names["program"].report())
    torch.testing.assert_close(names["result"], names["model"](*names["example"]), rtol=0, atol=1e-4)
