"""The lavapipe of a later Debian, the only software driver with cooperative matrices."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "native" / "tests" / "later_lavapipe.py"
PROGRAM = """
import edgecore_vulkan
from edgecore_vulkan.devices import list_devices

for device in list_devices(edgecore_vulkan.native_library()):
    print(device.driver, device.used, device.unused, sep="; ")
"""


@pytest.mark.full
def test_the_later_lavapipe_has_cooperative_matrices() -> None:
    if not sys.platform.startswith("linux") or os.uname().machine != "x86_64" or shutil.which("apt-get") is None:
        pytest.skip("the later lavapipe needs x86-64 Linux with apt-get")
    command = [sys.executable, str(SCRIPT), sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    if "apt-get update failed" in done.stderr or "needs apt-get with a Debian archive" in done.stderr:
        pytest.skip("the Debian archive cannot be reached, so that the later lavapipe cannot be fetched")
    assert done.returncode == 0, done.stderr
    assert "cooperative matrices" in done.stdout
