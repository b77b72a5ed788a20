"""Skip these tests if the package or OpenVINO is not installed; seed torch before each test."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest
import torch

os.environ.setdefault("EDGECORE_VERIFY_PASSES", "1")  # the edge verifier runs after every pass

if find_spec("openvino") is None or find_spec("edgecore_openvino") is None:
    collect_ignore_glob = ["*test_*.py"]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
