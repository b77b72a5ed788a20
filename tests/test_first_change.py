"""The change that `docs/first-change.md` walks through: its patches fit, and its test fails before and passes after."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT, blocks

import edgecore

PAGE = ROOT / "docs" / "first-change.md"
TEST = "tests/passes/library/test_remove_identities.py"


def run_test(clone: Path) -> subprocess.CompletedProcess[str]:
    """Run the tests of the pass with the copy of edgecore."""
    command = [sys.executable, "-m", "pytest", "-c", "pyproject.toml", "-p", "no:cacheprovider", TEST]
    environment = {**os.environ, "PYTHONPATH": str(clone / "src")}
    return subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_the_first_change_turns_a_failing_test_green(tmp_path: Path) -> None:
    shutil.copytree(Path(edgecore.__file__).parent, tmp_path / "src" / "edgecore", ignore=lambda *_: {"__pycache__"})
    for name in ("pyproject.toml", "conftest.py", "tests/edge_programs.py", TEST):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    add_test, change = (block.code for block in blocks(PAGE) if block.language == "diff")

    subprocess.run(["git", "apply", "-"], input=add_test, cwd=tmp_path, text=True, check=True)
    before = run_test(tmp_path)
    assert before.returncode == 1, before.stdout
    assert "FAILED" in before.stdout and "1 failed" in before.stdout and "repeat" in before.stdout

    subprocess.run(["git", "apply", "-"], input=change, cwd=tmp_path, text=True, check=True)
    after = run_test(tmp_path)
    assert after.returncode == 0, after.stdout
