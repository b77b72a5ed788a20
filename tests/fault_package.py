"""The fixture of `tests/conformance/toy` as an installed package: a backend of three operators with faults to plant."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from toy_backend import compiled, copy_package

TOY = Path(__file__).parent / "conformance" / "toy"


@pytest.fixture(scope="session")
def fault_folder(tmp_path_factory):
    """The folder that edgecore-fault is installed in; its library is compiled twice, once with a symbol too many."""
    folder = tmp_path_factory.mktemp("fault")
    package = copy_package(folder, TOY, "fault", "FaultBackend", "A backend of three operators")
    script = folder / "one_symbol.map"
    script.write_text("{ global: edgecore_*; local: *; };\n")
    flags = ["-fvisibility=hidden", f"-Wl,--version-script={script}"]
    for name, more in (("libfault.so", []), ("libfault_extra.so", ["-DEXTRA_SYMBOL"])):
        compiled(package / name, TOY / "fault_backend.cpp", flags=[*flags, *more])
    return folder


@pytest.fixture
def check(fault_folder, monkeypatch):
    """check(faults, only) runs part of the suite against the backend with these faults."""
    monkeypatch.syspath_prepend(fault_folder)
    importlib.invalidate_caches()

    from edgecore.conformance import run
    from edgecore.plugin import registry

    def run_with(faults="", only=(), **settings):
        monkeypatch.setenv("EDGECORE_TOY_FAULT", faults)
        return run("fault", only=only, quick=True, **settings)

    monkeypatch.setattr(registry, "_loaded", dict(registry._loaded))
    yield run_with
    sys.modules.pop("edgecore_fault", None)
