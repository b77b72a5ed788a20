"""Skip these tests if the package, edgecore-tosa or Arm's converter is not installed; seed torch before each test."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

os.environ.setdefault("EDGECORE_VERIFY_PASSES", "1")  # the edge verifier runs after every pass
sys.path.insert(0, str(Path(__file__).parent))

if any(find_spec(name) is None for name in ("model_converter", "edgecore_tosa", "edgecore_vgf")):
    collect_ignore_glob = ["*"]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def device() -> None:
    """Skip a test that runs files where no Vulkan device has the extensions, not even in the emulation layer."""
    from vgf_models import why_no_device

    if reason := why_no_device():
        pytest.skip(f"no test with a Vulkan device: {reason}")
