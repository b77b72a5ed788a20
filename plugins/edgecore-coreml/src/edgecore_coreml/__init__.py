"""The Core ML backend. Loading a file imports this module, so it must not import torch or other large packages."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from edgecore.plugin import BackendInfo, hookimpl, lazy_names, own_library

__getattr__ = lazy_names("edgecore_coreml", {"CoreMLQuantizer": "edgecore_coreml.quantizer"})


executorch_modules = {
    "executorch.backends.apple.coreml.compiler": {
        "CoreMLBackend": "edgecore_coreml.executorch_names:CoreMLBackend",
    },
    "executorch.backends.apple.coreml.partition": {
        "CoreMLPartitioner": "edgecore_coreml.executorch_names:coreml_partitioner",
    },
    "executorch.backends.apple.coreml.partition.coreml_partitioner": {
        "CoreMLPartitioner": "edgecore_coreml.executorch_names:coreml_partitioner",
    },
    "executorch.backends.apple.coreml.quantizer": {
        "CoreMLQuantizer": "edgecore_coreml.quantizer:CoreMLQuantizer",
    },
}
"""Names of ExecuTorch for `python -m edgecore.executorch`, and their counterparts here."""


def native_library() -> str:
    """Return the absolute path of the delegate's shared library."""
    return own_library(__path__, "edgecore_coreml")


def self_test() -> list[tuple[str, bool, str, str]]:
    """Return the rows of `edgecore doctor`: check, passed, detail and remedy. The converter, and the use of a Mac."""
    try:
        converter = version("coremltools")
    except PackageNotFoundError:
        converter = "not installed; only compiling needs it"
    system = platform.mac_ver()[0]
    core_ml = (
        f"macOS {system} runs the models"
        if system
        else "only a Mac, an iPhone or an iPad runs the models; this system compiles, inspects and verifies them"
    )
    return [("coremltools", True, converter, ""), ("Core ML", True, core_ml, "")]


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
            self_test=self_test,
            unpack="edgecore_coreml.blob:read_blob",
        )
    ]
