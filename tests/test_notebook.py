"""The notebook of the examples runs from its first cell to its last, and is stored without outputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pages import ROOT

NOTEBOOK = ROOT / "examples" / "first_steps.ipynb"


@pytest.mark.slow
def test_the_notebook_runs_and_its_networks_recognize_digits(tmp_path: Path) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = [
        output["text"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output.get("name") == "stdout"
    ]
    accuracies = [float(text.partition("accuracy: ")[2].split()[0]) for text in printed if "accuracy: " in text]
    assert len(accuracies) == 3
    assert min(accuracies) > 0.85


def test_the_notebook_is_stored_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert [cell["id"] for cell in cells if cell.get("outputs") or cell.get("execution_count")] == []
