"""Imports of a process that loads and runs a file."""

from __future__ import annotations

import subprocess
import sys

import torch

import edgecore

SCRIPT = """
import sys
sys.path[:0] = sys.argv[2:]
import edgecore
model = edgecore.load(sys.argv[1])
assert model.forward.delegates == ("XnnpackBackend",)
assert model.forward(memoryview(bytes(4 * 8)).cast("f", (1, 8))).shape == (1, 4)
heavy = {"torch", "numpy", "pydantic", "pluggy", "importlib.metadata", "dataclasses", "typing", "pathlib", "inspect", "re"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""


def test_load_and_run_imports_nothing_heavy(tmp_path):
    path = tmp_path / "linear.pte"
    edgecore.compile(torch.nn.Linear(8, 4).eval(), (torch.randn(1, 8),), backends=["xnnpack"]).save(path)
    # Without the start-up code of site-packages, which may import anything.
    command = [sys.executable, "-S", "-c", SCRIPT, str(path), *sys.path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
