"""The package of `fault_backend.cpp`; EDGECORE_TOY_FAULT names what it does wrong, comma-separated."""

import os
from pathlib import Path

from edgecore.plugin import BackendInfo, hookimpl

FAULTS = frozenset(os.environ.get("EDGECORE_TOY_FAULT", "").split(","))

if "prints" in FAULTS:
    print("edgecore-fault: hello")


def native_library():
    name = "libfault_extra.so" if "symbol" in FAULTS else "libfault.so"
    return Path(__file__).resolve().parent / name


@hookimpl
def edgecore_backends():
    return [
        BackendInfo(
            name="fault",
            backend_id="FaultBackend",
            summary="add, mul and relu",
            compiler="edgecore_fault.compiler:FaultCompiler",
            native_library=native_library,
        )
    ]
