"""The QNN backend: Qualcomm's Hexagon NPU. Loading a file imports this module, so it imports no torch and no onnx."""

from __future__ import annotations

import os
import re
import sys

from edgecore.plugin import BackendInfo, hookimpl


def native_library() -> str:
    """Return the absolute path of the library. An editable installation has several folders in `__path__`."""
    suffix = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
    paths = [os.path.join(os.path.abspath(folder), "lib", f"libedgecore_qnn{suffix}") for folder in __path__]
    return next(filter(os.path.isfile, paths), paths[0])


def runtime_library() -> str | None:
    """Return the absolute path of ONNX Runtime's library in the package `onnxruntime`; None if there is none."""
    return _file_of("onnxruntime", "capi", r"(lib)?onnxruntime(\.so\.[\d.]+|\.[\d.]*dylib|\.dll)")


def provider_library() -> str | None:
    """Return the absolute path of the QNN provider in the package `onnxruntime-qnn`; None if there is none."""
    return _file_of("onnxruntime_qnn", "", r"(lib)?onnxruntime_providers_qnn\.(so|dylib|dll)")


def sdk_version() -> str | None:
    """Return the version of Qualcomm's SDK in the package `onnxruntime-qnn`, such as `2.51.0`; None if there is none."""
    path = _file_of("onnxruntime_qnn", "", r"build_and_package_info\.py")
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


def _file_of(package: str, folder: str, pattern: str) -> str | None:
    """Return the absolute path of a file of an installed package, which is not imported.

    The current directory is never searched, even if it is on `sys.path`.
    """
    site_packages = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for root in (site_packages, *sys.path):
        path = os.path.join(root, package, folder)
        if os.path.isabs(root) and os.path.isdir(path) and not os.path.samefile(root, os.curdir):
            names = sorted(name for name in os.listdir(path) if re.fullmatch(pattern, name))
            if names:
                return os.path.join(path, names[-1])
    return None


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
