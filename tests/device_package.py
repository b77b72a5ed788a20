"""The fixture of `tests/conformance/device` as an installed package: a device with memory that the host cannot touch."""

from __future__ import annotations

import ctypes
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
SOURCES = REPOSITORY / "tests" / "conformance" / "device"
METADATA = """Metadata-Version: 2.4
Name: edgecore-device
Version: 1.0
Summary: A device for tests
License-Expression: Apache-2.0
Requires-Python: >=3.10
Requires-Dist: edgecore
Description-Content-Type: text/markdown

"""
COUNTERS = ("maps", "bytes", "flushes", "invalidates", "executions", "pending", "buffers", "state_copies")
"""The members of the struct `Counters` in `device.h`."""


@pytest.fixture(scope="session")
def device_folder(tmp_path_factory):
    """The folder that edgecore-device is installed in; `libdevice_counting.so` also exports its counters."""
    if not sys.platform.startswith("linux"):
        pytest.skip("the device protects pages as Linux does")
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("clang++-16")
    if compiler is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("device")
    package = folder / "edgecore_device"
    shutil.copytree(SOURCES / "edgecore_device", package, ignore=shutil.ignore_patterns("__pycache__"))
    script = folder / "exports.map"
    script.write_text("{ global: edgecore_backend_v0; device_counters; local: *; };\n")
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread"]
    flags += [f"-I{REPOSITORY / 'runtime_cpp' / 'include'}", f"-Wl,--version-script={script}"]
    for name, more in (("libdevice.so", []), ("libdevice_counting.so", ["-DDEVICE_COUNTERS"])):
        command = [compiler, *flags, *more, "-o", package / name, SOURCES / "device_backend.cpp"]
        subprocess.run(command, check=True)
    info = folder / "edgecore_device-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA + (SOURCES / "README.md").read_text())
    (info / "entry_points.txt").write_text("[edgecore.backends]\nDeviceBackend = edgecore_device\n")
    return folder


@pytest.fixture
def device_package(device_folder, monkeypatch):
    """edgecore-device, installed for one test."""
    from edgecore.plugin import registry

    monkeypatch.syspath_prepend(device_folder)
    importlib.invalidate_caches()
    registry._loaded.clear()
    yield
    registry._loaded.clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "edgecore_device"]:
        del sys.modules[name]


@pytest.fixture
def device_counters(device_package, device_folder, monkeypatch):
    """edgecore-device, and a function that returns what it has counted since the function was called last."""
    monkeypatch.setenv("EDGECORE_DEVICE_LIBRARY", "libdevice_counting.so")
    library = ctypes.CDLL(str(device_folder / "edgecore_device" / "libdevice_counting.so"))
    library.device_counters.restype = ctypes.POINTER(ctypes.c_uint64 * len(COUNTERS))
    counts = library.device_counters().contents
    last = dict.fromkeys(COUNTERS, 0)

    def since() -> dict[str, int]:
        now = dict(zip(COUNTERS, counts, strict=True))
        change = {name: now[name] - last[name] for name in COUNTERS}
        last.update(now)
        return change

    since()
    return since
