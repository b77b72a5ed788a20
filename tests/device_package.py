"""The fixture of `tests/conformance/device` as an installed package: a device with memory that the host cannot touch."""

from __future__ import annotations

import ctypes
import importlib
import sys
from pathlib import Path

import pytest
from toy_backend import compiled, copy_package

SOURCES = Path(__file__).parent / "conformance" / "device"
COUNTERS = ("maps", "bytes", "flushes", "invalidates", "executions", "pending", "buffers", "state_copies")
"""The members of the struct `Counters` in `device.h`."""


@pytest.fixture(scope="session")
def device_folder(tmp_path_factory):
    """The folder that edgecore-device is installed in; `libdevice_counting.so` also exports its counters."""
    if not sys.platform.startswith("linux"):
        pytest.skip("the device protects pages as Linux does")
    folder = tmp_path_factory.mktemp("device")
    package = copy_package(folder, SOURCES, "device", "DeviceBackend", "A device for tests")
    script = folder / "exports.map"
    script.write_text("{ global: edgecore_backend_v0; device_counters; local: *; };\n")
    flags = ["-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", f"-Wl,--version-script={script}"]
    for name, more in (("libdevice.so", []), ("libdevice_counting.so", ["-DDEVICE_COUNTERS"])):
        compiled(package / name, SOURCES / "device_backend.cpp", flags=[*flags, *more])
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
