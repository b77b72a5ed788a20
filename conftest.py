"""Options and paths for the tests of edgecore and of its plugins."""

import os
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent / "tests"
os.environ.setdefault("EDGECORE_VERIFY_PASSES", "1")  # tests verify a program after each pass
sys.path[:0] = [str(TESTS), str(TESTS / "kernels"), str(TESTS / "interop")]  # helpers: `zoo`, `native`, ...


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="run the tests marked slow as well: `make test-slow`")
    parser.addoption("--full", action="store_true", help="run these and the tests marked full: `make test-all`")


def pytest_collection_modifyitems(config, items):
    full = config.getoption("--full")
    for marker, is_run in (("slow", full or config.getoption("--slow")), ("full", full)):
        for item in items:
            if not is_run and item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=f"needs --{marker}"))
