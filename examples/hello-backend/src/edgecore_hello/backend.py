"""The hook by which edgecore finds the backend. This module must not import torch or other large packages."""

from __future__ import annotations

import edgecore_hello
from edgecore.plugin import BackendInfo, hookimpl, own_library


def native_library() -> str:
    """Return the absolute path of the delegate's shared library."""
    return own_library(edgecore_hello.__path__, "edgecore_hello")


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
