"""The Ethos-U backend. Loading a file imports this module, so it must not import torch, numpy or Vela."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

from edgecore.plugin import BackendInfo, hookimpl, lazy_names

__getattr__ = lazy_names(
    "edgecore_ethosu",
    {
        "EthosUCompileSpec": "edgecore_ethosu.compile_spec",
        "EthosUPartitioner": "edgecore_ethosu.partitioner",
        "EthosUQuantizer": "edgecore_ethosu.quantizer",
    },
)

_SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")


def native_library() -> str:
    """Return the absolute path of the library. An editable installation has several folders in `__path__`."""
    paths = [os.path.join(os.path.abspath(folder), "lib", f"libedgecore_ethosu{_SUFFIX}") for folder in __path__]
    return next(filter(os.path.isfile, paths), paths[0])


def simulator_library() -> str | None:
    """Return the absolute path of the TOSA simulator in the package `edgecore-tosa`; None if there is none.

    The package is found and not imported. The current directory is not searched, even if it is on `sys.path`.
    """
    spec = find_spec("edgecore_tosa")
    for folder in map(os.path.abspath, (spec and spec.submodule_search_locations) or ()):
        path = os.path.join(folder, "lib", f"libedgecore_tosa_simulator{_SUFFIX}")
        if os.path.isfile(path) and not os.path.samefile(os.path.dirname(folder), os.curdir):
            return path
    return None


def load_options() -> dict[str, str]:
    """Return the load option with the path of the simulator; the delegate does not search for it."""
    path = simulator_library()
    return {"simulator": path} if path else {}


@hookimpl
def edgecore_backends() -> list[BackendInfo]:
    """Return the backend of this package."""
    return [
        BackendInfo(
            name="ethosu",
            backend_id="EthosUBackend",
            summary="Arm's NPUs Ethos-U55, U65 and U85",
            compiler="edgecore_ethosu.compiler:EthosUCompiler",
            native_library=native_library,
            load_options=load_options,
        )
    ]
