"""The Hello backend. Loading a file imports this module, so it imports neither torch nor anything else that is heavy."""

from __future__ import annotations

import os
import sys

from edgecore.plugin import BackendInfo, hookimpl


def native_library() -> str:
    """Return the absolute path of the delegate's shared library; editable installations have it in another folder."""
    suffix = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
    paths = [os.path.join(os.path.abspath(folder), "lib", f"libedgecore_hello{suffix}") for folder in __path__]
    return next(filter(os.path.isfile, paths), paths[0])


@hookimpl
def edgecore_backends() -> list[BackendInfo]:
    """Return the backend of this package."""
    return [
        BackendInfo(
            name="hello",
            backend_id="HelloBackend",
            summary="a template: add, mul and relu on the CPU",
            compiler="edgecore_hello.compiler:HelloCompiler",
            native_library=native_library,
        )
    ]
