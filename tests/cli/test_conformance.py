"""`edgecore conformance`: names that do not exist."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def run_module(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=folder, timeout=300)


def test_an_unknown_backend_is_a_sentence(tmp_path):
    done = run_module("-m", "edgecore", "conformance", "nonesuch", folder=tmp_path)
    assert done.returncode == 1
    assert "backend 'nonesuch' is not installed" in done.stderr and "Traceback" not in done.stderr
