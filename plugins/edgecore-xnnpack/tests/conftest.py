"""Makes the helpers of `lowered.py` importable, and the random numbers the same in every run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch

os.environ.setdefault("EDGECORE_VERIFY_PASSES", "1")  # the edge verifier runs after every pass

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
