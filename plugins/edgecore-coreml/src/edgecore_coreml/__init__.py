"""The Core ML backend. Loading a file imports this module, so it must not import torch or other large packages."""

from __future__ import annotations

from edgecore.plugin import BackendInfo, hookimpl, lazy_names, own_library

__getattr__ = lazy_names("edgecore_coreml", {"CoreMLQuantizer": "edgecore_coreml.quantizer"})


def native_library() -> str:
    """Return the absolute path of the delegate's shared library."""
    return own_library(__path__, "edgecore_coreml")


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
