"""The OpenVINO backend: Intel CPUs, GPUs and NPUs.

Loading a `.pte` imports this module, so it must import quickly: it imports neither torch nor openvino.
"""

from __future__ import annotations

import os
import sys

from edgecore.plugin import BackendInfo, hookimpl


def native_library() -> str:
    """Return the absolute path of the delegate's shared library.

    Search all folders in the package's `__path__`: in an editable installation, the Python sources are in one folder
    and the library is in another.
    """
    suffix = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
    paths = [os.path.join(os.path.abspath(folder), "lib", f"libedgecore_openvino{suffix}") for folder in __path__]
    return next(filter(os.path.isfile, paths), paths[0])


def load_options() -> dict[str, str]:
    """Return the load option with the path of OpenVINO's library; the delegate itself does not search for the library."""
    path = openvino_library()
    return {"library": path} if path else {}


def openvino_library() -> str | None:
    """Return the absolute path of the C library in the installed package `openvino`; None if it is not installed.

    The current directory is never searched, even if it is on `sys.path`.
    """
    site_packages = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    prefix = "libopenvino_c." if sys.platform == "darwin" else "libopenvino_c.so"
    for root in (site_packages, *sys.path):
        folder = os.path.join(root, "openvino", "libs")
        if os.path.isabs(root) and os.path.isdir(folder) and not os.path.samefile(root, os.curdir):
            names = sorted(name for name in os.listdir(folder) if name.startswith(prefix))
            if names:
                return os.path.join(folder, names[-1])
    return None


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
