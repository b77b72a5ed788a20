"""Shaders with cooperative matrices, on the lavapipe of a later Debian: the only software driver that has them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "native" / "tests" / "later_lavapipe.py"
PRODUCTS = Path(__file__).parents[1] / "later_products.py"


@pytest.mark.full
def test_products_by_cooperative_matrices_are_those_of_float64() -> None:
    if not sys.platform.startswith("linux") or os.uname().machine != "x86_64" or shutil.which("apt-get") is None:
        pytest.skip("the later lavapipe needs x86-64 Linux with apt-get")
    command = [sys.executable, str(SCRIPT), sys.executable, str(PRODUCTS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    if "apt-get update failed" in done.stderr or "no Debian archive configured" in done.stderr:
        pytest.skip("the Debian archive cannot be reached, so that the later lavapipe cannot be fetched")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "cooperative matrices" in found["used"]
    shaders = {shader for *_, shader, _ in found["layers"]}
    assert {"gemm_cooperative_f16_mixed", "gemm_cooperative_f16_buffer"} <= shaders
    for *size, shader, error in found["layers"]:
        assert shader.startswith("gemm_cooperative_f16"), (size, shader)
        assert error <= 1, (size, shader, error)
