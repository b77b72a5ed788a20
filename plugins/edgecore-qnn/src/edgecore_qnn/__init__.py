"""The QNN backend: Qualcomm's Hexagon NPU. Loading a file imports this module, so it imports no torch and no onnx."""

from __future__ import annotations

import re
import sys

from edgecore.plugin import BackendInfo, hookimpl, installed_file, own_library

executorch_modules = {
    "executorch.backends.qualcomm.partition.qnn_partitioner": {
        "QnnPartitioner": "edgecore_qnn.compile_spec:QnnPartitioner",
    },
    "executorch.backends.qualcomm.quantizer.quantizer": {
        "QnnQuantizer": "edgecore_qnn.quantizer:QnnQuantizer",
    },
    "executorch.backends.qualcomm.serialization.qc_schema": {
        "QcomChipset": "edgecore_qnn.compile_spec:QcomChipset",
    },
    "executorch.backends.qualcomm.utils.utils": {
        "QcomChipset": "edgecore_qnn.compile_spec:QcomChipset",
        "generate_htp_compiler_spec": "edgecore_qnn.compile_spec:generate_htp_compiler_spec",
        "generate_qnn_executorch_compiler_spec": "edgecore_qnn.compile_spec:generate_qnn_executorch_compiler_spec",
        "to_edge_transform_and_lower_to_qnn": "edgecore_qnn.compile_spec:to_edge_transform_and_lower_to_qnn",
    },
}
"""Names of ExecuTorch for `python -m edgecore.executorch`, and their counterparts here."""


def native_library() -> str:
    """Return the absolute path of the delegate's shared library."""
    return own_library(__path__, "edgecore_qnn")


def runtime_library() -> str | None:
    """Return the absolute path of ONNX Runtime's library in the package `onnxruntime`; None if there is none."""
    name = {"win32": "onnxruntime.dll", "darwin": "libonnxruntime.*dylib"}.get(sys.platform, "libonnxruntime.so.*")
    return installed_file("onnxruntime", "capi", name)


def provider_library() -> str | None:
    """Return the absolute path of the QNN provider in the package `onnxruntime-qnn`; None if there is none."""
    return installed_file("onnxruntime_qnn", "*onnxruntime_providers_qnn.*")


def sdk_version() -> str | None:
    """Return the version of Qualcomm's SDK in the package `onnxruntime-qnn`, such as `2.51.0`; None if there is none."""
    path = installed_file("onnxruntime_qnn", "build_and_package_info.py")
    if path is None:
        return None
    with open(path, encoding="utf-8") as file:
        found = re.search(r"^qnn_version\s*=\s*'([\d.]+)'", file.read(), re.MULTILINE)
    return found and found.group(1)


def load_options() -> dict[str, str]:
    """Return the load options with the paths of the libraries and the SDK's version; the delegate searches nothing."""
    found = {"onnxruntime": runtime_library(), "provider": provider_library(), "sdk_version": sdk_version()}
    return {name: value for name, value in found.items() if value}


def self_test() -> list[tuple[str, bool, str] | tuple[str, bool, str, str]]:
    """Return rows for `edgecore doctor`: packages, device and licence."""
    from edgecore_qnn.doctor import rows

    return rows()


@hookimpl
def edgecore_backends() -> list[BackendInfo]:
    """Return the backend of this package."""
    return [
        BackendInfo(
            name="qnn",
            backend_id="QnnBackend",
            summary="Qualcomm's Hexagon NPU",
            compiler="edgecore_qnn.compiler:QnnCompiler",
            native_library=native_library,
            load_options=load_options,
            self_test=self_test,
        )
    ]
