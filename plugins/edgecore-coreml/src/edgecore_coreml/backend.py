"""edgecore's entry point: describes the backend, and makes this package's checks for `edgecore doctor`."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import edgecore_coreml
from edgecore.plugin import BackendInfo, hookimpl, own_library

ONLY_ON_APPLE = "only a Mac, an iPhone or an iPad runs the models"


def native_library() -> str:
    """Return the absolute path of the delegate's shared library."""
    return own_library(edgecore_coreml.__path__, "edgecore_coreml")


def self_test() -> list[tuple[str, bool, str, str]]:
    """Return rows of `edgecore doctor` (check, passed, detail, remedy): coremltools' version; whether this is a Mac."""
    try:
        converter = version("coremltools")
    except PackageNotFoundError:
        converter = "not installed; only compiling needs it"
    system = platform.mac_ver()[0]
    core_ml = (
        f"macOS {system} runs the models"
        if system
        else f"{ONLY_ON_APPLE}; this system compiles, inspects and verifies them"
    )
    return [("coremltools", True, converter, ""), ("Core ML", True, core_ml, "")]


@hookimpl
def edgecore_backends() -> list[BackendInfo]:
    """Return the description of the Core ML backend."""
    return [
        BackendInfo(
            name="coreml",
            backend_id="CoreMLBackend",
            summary="Apple's Core ML: Neural Engine, GPU and CPU",
            compiler="edgecore_coreml.compiler:CoreMLCompiler",
            native_library=native_library,
            self_test=self_test,
            unpack="edgecore_coreml.package.blob:read_blob",
        )
    ]
