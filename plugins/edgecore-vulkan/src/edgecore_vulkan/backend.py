"""The entry point for edgecore: the delegate's library, and this machine's Vulkan devices for `edgecore doctor`."""

from __future__ import annotations

import edgecore_vulkan
from edgecore.plugin import BackendInfo, hookimpl, own_library


def native_library() -> str:
    """Return the absolute path of the delegate's shared library."""
    return own_library(edgecore_vulkan.__path__, "edgecore_vulkan")


def self_test() -> list[tuple[str, bool, str, str]]:
    """List the Vulkan devices of this machine as rows of `edgecore doctor` (check, passed, detail, remedy)."""
    from edgecore_vulkan import devices

    return devices.self_test(native_library())


@hookimpl
def edgecore_backends() -> list[BackendInfo]:
    """Return the description of the Vulkan backend."""
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
