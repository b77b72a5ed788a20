"""The script that gets XNNPACK, as a module, and XNNPACK's sources."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "native" / "third_party" / "get_xnnpack.py"


def load_script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("get_xnnpack", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "get_xnnpack", module)
    monkeypatch.syspath_prepend(str(SCRIPT.parent))  # as when it is run
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module, on a machine without apt."""
    module = load_script(monkeypatch)
    monkeypatch.setattr("third_party.apt_fetch", lambda pins, into: None)
    monkeypatch.delenv("EDGECORE_THIRD_PARTY", raising=False)
    return module


@pytest.fixture(scope="session")
def xnnpack_sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of XNNPACK without our patches, where the pinned file is at hand."""
    with pytest.MonkeyPatch.context() as patched:
        script = load_script(patched)
        (pin,) = [pin for pin in script.read_pins(script.PINS) if pin.package == "xnnpack"]
        cache = script.cache_folder() / "files"
        places = [cache, *map(Path, filter(None, [os.environ.get("EDGECORE_THIRD_PARTY")]))]
        files = [place / pin.name for place in places if pin.matches(place / pin.name)]
        if not files:
            pytest.skip(f"{pin.name} is neither in {cache} nor in EDGECORE_THIRD_PARTY")
        sources: Path = script.unpack_tarball(files[0], tmp_path_factory.mktemp("xnnpack"))
    return sources
