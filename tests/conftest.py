"""Makes the helpers beside the tests (`zoo`, `kernels/native`, ...) importable, and verifies programs after every pass."""

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
os.environ.setdefault("EDGECORE_VERIFY_PASSES", "1")
sys.path[:0] = [str(HERE), str(HERE / "kernels"), str(HERE / "interop")]


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="run the tests marked full as well, which take many minutes")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--full"):
        for item in items:
            if item.get_closest_marker("full"):
                item.add_marker(pytest.mark.skip(reason="needs --full"))
