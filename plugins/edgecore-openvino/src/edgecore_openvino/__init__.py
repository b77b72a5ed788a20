"""The OpenVINO backend: Intel CPUs, GPUs and NPUs.

Loading a `.pte` imports this module, so it must import quickly: it imports neither torch nor openvino.
"""

from __future__ import annotations

import sys

from edgecore.plugin import BackendInfo, hookimpl, installed_file, own_library

executorch_modules = {
    "executorch.backends.openvino.partitioner": {
        "OpenvinoPartitioner": "edgecore_openvino.executorch_names:openvino_partitioner",
    },
    "executorch.backends.openvino.quantizer": {
        "OpenVINOQuantizer": "edgecore_openvino.quantizer:OpenvinoQuantizer",
    },
    "executorch.backends.openvino.quantizer.quantizer": {
        "OpenVINOQuantizer": "edgecore_openvino.quantizer:OpenvinoQuantizer",
    },
}
"""Names of ExecuTorch for `python -m edgecore.executorch`, and their counterparts here."""


def native_library() -> str:
    """Return the absolute path of the delegate's shared library."""
    return own_library(__path__, "edgecore_openvino")


def load_options() -> dict[str, str]:
    """Return the load option with the path of OpenVINO's library; the delegate itself does not search for the library."""
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
