"""Skip these tests if Vela or edgecore-tosa is not installed; seed torch before each test."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

os.environ.setdefault("EDGECORE_VERIFY_PASSES", "1")  # the edge verifier runs after every pass
sys.path.insert(0, str(Path(__file__).parent))

if any(find_spec(name) is None for name in ("ethosu", "edgecore_tosa", "edgecore_ethosu")):
    collect_ignore_glob = ["*"]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
