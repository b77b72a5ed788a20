"""The pytest plugin: the checks of a backend as tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def run_module(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=folder, timeout=300)


@pytest.mark.slow
def test_pytest_runs_the_checks_as_tests(tmp_path):
    pytest.importorskip("edgecore_xnnpack")
    plugin = ("-m", "pytest", "-p", "edgecore.conformance.pytest_plugin", "-p", "no:cacheprovider", "-rs")
    if "edgecore.conformance" in entry_points():
        plugin = ("-m", "pytest", "-p", "no:cacheprovider", "-rs")
    chosen = (
        "--edgecore-backend",
        "xnnpack",
        "--edgecore-quick",
        "-k",
        "operators/aten.relu.default or metadata",
        "-v",
    )
    done = run_module(*plugin, *chosen, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 2 passed" in done.stdout


def entry_points() -> str:
    from importlib.metadata import entry_points as found

    return " ".join(point.value for point in found(group="pytest11"))


def test_the_pytest_plugin_imports_nothing_heavy(tmp_path):
    script = (
        "import sys, edgecore.conformance.pytest_plugin; print({'torch', 'numpy', 'pytest', 'json'} & set(sys.modules))"
    )
    assert run_module("-c", script, folder=tmp_path).stdout.strip() == "set()"
