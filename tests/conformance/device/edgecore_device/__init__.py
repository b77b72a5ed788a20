"""A device for tests; see the README."""

import os
from pathlib import Path

from edgecore.plugin import BackendInfo, hookimpl


def native_library():
    # The test of the counters sets this variable to the library that exports them.
    return Path(__file__).resolve().parent / os.environ.get("EDGECORE_DEVICE_LIBRARY", "libdevice.so")


@hookimpl
def edgecore_backends():
    return [
        BackendInfo(
            name="device",
            backend_id="DeviceBackend",
            summary="a device for tests: memory that the host cannot touch",
            compiler="edgecore_device.compiler:DeviceCompiler",
            native_library=native_library,
        )
    ]
