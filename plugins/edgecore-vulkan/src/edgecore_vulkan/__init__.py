"""The Vulkan backend. Loading a file imports this module, so it must not import torch or other large packages."""

from __future__ import annotations

import os
import sys

from edgecore.plugin import BackendInfo, hookimpl


def native_library() -> str:
    """Return the absolute path of the library. An editable installation has several folders in `__path__`."""
    suffix = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
    paths = [os.path.join(os.path.abspath(folder), "lib", f"libedgecore_vulkan{suffix}") for folder in __path__]
    return next(filter(os.path.isfile, paths), paths[0])


def self_test() -> list[tuple[str, bool, str, str]]:
    """List the Vulkan devices of this machine for `edgecore doctor`; see `devices`."""
    from edgecore_vulkan import devices

    return devices.self_test(native_library())


@hookimpl
def edgecore_backends() -> list[BackendInfo]:
    """Return the backend of this package."""
    return [
        BackendInfo(
            name="vulkan",
            backend_id="VulkanBackend",
            summary="GPUs through Vulkan",
            compiler="edgecore_vulkan.compiler:VulkanCompiler",
            native_library=native_library,
            self_test=self_test,
        )
    ]
