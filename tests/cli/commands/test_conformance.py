"""`edgecore conformance`: names that do not exist, and runners that do not start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def run_module(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=folder, timeout=300)


def test_an_unknown_backend_is_a_sentence(tmp_path):
    done = run_module("-m", "edgecore", "conformance", "nonesuch", folder=tmp_path)
    assert done.returncode == 1
    assert "backend 'nonesuch' is not installed" in done.stderr and "Traceback" not in done.stderr


def test_a_runner_that_does_not_start_is_a_sentence(tmp_path):
    pytest.importorskip("edgecore_xnnpack")
    done = run_module("-m", "edgecore", "conformance", "xnnpack", "--runner", "/no/edgecore-run", folder=tmp_path)
    assert done.returncode == 1
    assert "runner: /no/edgecore-run cannot be started: " in done.stderr and done.stderr.count("\n") == 1
