"""The examples of README.md run as they stand there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"


def test_python_examples(tmp_path):
    pytest.importorskip("edgecore_xnnpack")
    compiling, running = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    running += "\nimport sys; assert 'torch' not in sys.modules; assert y.shape == (1, 10)"
    for script in (compiling, running):
        result = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
    assert (tmp_path / "model.pte").is_file()


def test_links():
    text = README.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (README.parent / target).exists(), target
