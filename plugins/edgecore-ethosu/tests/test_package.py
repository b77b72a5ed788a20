"""The README and the page of operators."""

from __future__ import annotations

from pathlib import Path

import torch

from edgecore.sdk import operators_markdown, options_markdown
from edgecore_ethosu.compiler import EthosUCompiler
from edgecore_ethosu.options import EthosUOptions

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
OPERATORS = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")


def test_the_tables_of_the_readme_and_of_the_operators_are_those_of_the_code():
    """If this fails, replace the tables by the output of `edgecore backends ethosu --markdown`."""
    assert options_markdown(EthosUCompiler.Options) in README
    supported = EthosUCompiler().operator_support()
    of_u85 = EthosUCompiler().operator_support_with(EthosUOptions(target="ethos-u85-256"))
    assert operators_markdown(supported) in OPERATORS
    assert operators_markdown([row for row in of_u85 if row not in supported]) in OPERATORS


def test_the_examples_of_the_readme_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "readme"}
    for block in README.split("```python\n")[1:]:
        exec(block.partition("```")[0], names)
    assert (tmp_path / "model.pte").is_file() and "1 x EthosUBackend" in str(names["program"].report())
    torch.testing.assert_close(names["result"], names["model"](*names["example"]), rtol=0, atol=0.1)
