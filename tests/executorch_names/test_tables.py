"""The page for users of ExecuTorch has the tables of the code."""

from pathlib import Path

import pytest

from edgecore.executorch.finder import plugin_modules
from edgecore.executorch.names import MODULES
from edgecore.executorch.tables import names_markdown, reasons_markdown

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from-executorch.md").read_text()


def test_the_page_has_each_module_and_name_of_edgecore():
    assert names_markdown(MODULES) in PAGE


def test_the_page_has_each_name_of_the_installed_backends():
    for module, names in plugin_modules().items():
        if "executorch.backends.arm.quantizer" != module:  # two packages contribute to it
            assert names_markdown({module: names}) in PAGE, module


def test_the_page_has_no_name_that_the_code_lacks():
    known = {**MODULES, **plugin_modules()}
    sections = {part.splitlines()[0]: part for part in PAGE.split("\n### ")[1:]}
    if not set(sections) <= set(known):
        pytest.skip("not all backends of the page are installed")
    for module, part in sections.items():
        rows = [line for line in part.splitlines() if line.startswith("| `")]
        assert len(rows) == len(known[module]), module


def test_the_page_has_each_name_without_counterpart():
    assert reasons_markdown() in PAGE
