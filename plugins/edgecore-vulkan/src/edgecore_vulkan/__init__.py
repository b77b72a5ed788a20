"""The Vulkan backend. Loading a `.pte` imports this module, so it must not import torch or other large packages."""

from __future__ import annotations

from edgecore_vulkan.backend import edgecore_backends as edgecore_backends
from edgecore_vulkan.backend import native_library as native_library

executorch_modules = {
    "executorch.backends.vulkan.partitioner.vulkan_partitioner": {
        "VulkanPartitioner": "edgecore_vulkan.executorch:vulkan_partitioner",
    },
    "executorch.backends.vulkan.quantizer.vulkan_quantizer": {
        "VulkanQuantizer": "edgecore_vulkan.quantizer:VulkanQuantizer",
        "get_symmetric_quantization_config": "edgecore_vulkan.quantizer:get_symmetric_quantization_config",
    },
}
"""Maps ExecuTorch's names to their counterparts in edgecore, for `python -m edgecore.executorch`."""
