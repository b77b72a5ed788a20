"""The script that gets XNNPACK, as a module."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "native" / "third_party" / "get_xnnpack.py"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module, on a machine without apt."""
    spec = importlib.util.spec_from_file_location("get_xnnpack", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "get_xnnpack", module)
    monkeypatch.syspath_prepend(str(SCRIPT.parent))  # as when it is run
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "apt_fetch", lambda pins, into: None)
    monkeypatch.delenv("EDGECORE_THIRD_PARTY", raising=False)
    return module
