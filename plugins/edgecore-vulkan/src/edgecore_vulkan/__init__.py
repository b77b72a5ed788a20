"""The Vulkan backend. Loading a file imports this module, so it must not import torch or other large packages."""

from __future__ import annotations

from edgecore.plugin import BackendInfo, hookimpl, own_library

executorch_modules = {
    "executorch.backends.vulkan.partitioner.vulkan_partitioner": {
        "VulkanPartitioner": "edgecore_vulkan.executorch_names:vulkan_partitioner",
    },
    "executorch.backends.vulkan.quantizer.vulkan_quantizer": {
        "VulkanQuantizer": "edgecore_vulkan.quantizer:VulkanQuantizer",
        "get_symmetric_quantization_config": "edgecore_vulkan.quantizer:get_symmetric_quantization_config",
    },
}
"""Names of ExecuTorch for `python -m edgecore.executorch`, and their counterparts here."""


def native_library() -> str:
    """Return the absolute path of the delegate's shared library."""
    return own_library(__path__, "edgecore_vulkan")


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
