"""Describe the OpenVINO backend to edgecore: its compiler, its delegate's library, and the OpenVINO library."""

from __future__ import annotations

import sys

import edgecore_openvino
from edgecore.plugin import BackendInfo, hookimpl, installed_file, own_library


def native_library() -> str:
    """Return the absolute path of the delegate's shared library."""
    return own_library(edgecore_openvino.__path__, "edgecore_openvino")


def load_options() -> dict[str, str]:
    """Return the load option `library`: the path of OpenVINO's C library, for which the delegate does not search."""
    path = openvino_library()
    return {"library": path} if path else {}


def openvino_library() -> str | None:
    """Return the absolute path of the C library in the installed package `openvino`; None if it is not installed."""
    return installed_file("openvino", "libs", "libopenvino_c.*" if sys.platform == "darwin" else "libopenvino_c.so*")


@hookimpl
def edgecore_backends() -> list[BackendInfo]:
    """Describe the backend of this package to edgecore."""
    return [
        BackendInfo(
            name="openvino",
            backend_id="OpenvinoBackend",
            summary="Intel: CPU, GPU and NPU",
            compiler="edgecore_openvino.compiler:OpenvinoCompiler",
            native_library=native_library,
            load_options=load_options,
        )
    ]
