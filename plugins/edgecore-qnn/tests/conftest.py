"""Skip these tests if ONNX Runtime's QNN provider is not installed; seed torch; a cache of their own."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

os.environ.setdefault("EDGECORE_VERIFY_PASSES", "1")  # the edge verifier runs after every pass
sys.path.insert(0, str(Path(__file__).parent))

if any(find_spec(name) is None for name in ("onnxruntime_qnn", "onnx", "edgecore_qnn")):
    collect_ignore_glob = ["*test_*.py"]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session", autouse=True)
def _shared_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let tests share compiled graphs with each other, and not with the user's cache."""
    os.environ["EDGECORE_QNN_CACHE"] = str(tmp_path_factory.mktemp("qnn-cache"))


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for one test."""
    monkeypatch.setenv("EDGECORE_QNN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
