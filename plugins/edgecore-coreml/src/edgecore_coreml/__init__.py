"""The Core ML backend. Loading a file imports this module, so it must not import torch or other large packages."""

from __future__ import annotations

import os
import sys

from edgecore.plugin import BackendInfo, hookimpl

_SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")


def native_library() -> str:
    """Return the absolute path of the library. An editable installation has several folders in `__path__`."""
    paths = [os.path.join(os.path.abspath(folder), "lib", f"libedgecore_coreml{_SUFFIX}") for folder in __path__]
    return next(filter(os.path.isfile, paths), paths[0])


@hookimpl
def edgecore_backends() -> list[BackendInfo]:
    """Return the backend of this package."""
    return [
        BackendInfo(
            name="coreml",
            backend_id="CoreMLBackend",
            summary="Apple's Core ML: Neural Engine, GPU and CPU",
            compiler="edgecore_coreml.compiler:CoreMLCompiler",
            native_library=native_library,
            unpack="edgecore_coreml.blob:read_blob",
        )
    ]
