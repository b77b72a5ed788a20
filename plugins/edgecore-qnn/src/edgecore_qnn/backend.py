"""Describe the QNN backend to edgecore: its compiler, its delegate's library, and the libraries of ONNX Runtime."""

from __future__ import annotations

import re
import sys

import edgecore_qnn
from edgecore.plugin import BackendInfo, hookimpl, installed_file, own_library


def native_library() -> str:
    """Return the absolute path of the delegate's shared library."""
    return own_library(edgecore_qnn.__path__, "edgecore_qnn")


def runtime_library() -> str | None:
    """Return the absolute path of the library in the package `onnxruntime`; None if it is missing."""
    name = {"win32": "onnxruntime.dll", "darwin": "libonnxruntime.*dylib"}.get(sys.platform, "libonnxruntime.so.*")
    return installed_file("onnxruntime", "capi", name)


def provider_library() -> str | None:
    """Return the absolute path of the QNN provider in the package `onnxruntime-qnn`; None if it is missing."""
    return installed_file("onnxruntime_qnn", "*onnxruntime_providers_qnn.*")


def sdk_version() -> str | None:
    """Return the version of Qualcomm's SDK in `onnxruntime-qnn`, such as `2.51.0`; None if it is missing."""
    path = installed_file("onnxruntime_qnn", "build_and_package_info.py")
    if path is None:
        return None
    with open(path, encoding="utf-8") as file:
        match = re.search(r"^qnn_version\s*=\s*'([\d.]+)'", file.read(), re.MULTILINE)
    return match and match.group(1)


def load_options() -> dict[str, str]:
    """Return load options: paths of libraries, for which the delegate does not search, and the version of QNN's SDK."""
    paths = {"onnxruntime": runtime_library(), "provider": provider_library(), "sdk_version": sdk_version()}
    return {name: value for name, value in paths.items() if value}


def self_test() -> list[tuple[str, bool, str] | tuple[str, bool, str, str]]:
    """Return rows for `edgecore doctor`: packages, device and licence."""
    from edgecore_qnn.provider.doctor import rows

    return rows()


@hookimpl
def edgecore_backends() -> list[BackendInfo]:
    """Describe the backend of this package to edgecore."""
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
