"""The function that replaces ExecuTorch's class `VulkanPartitioner` in users' scripts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgecore.sdk import Partitioner
from edgecore_vulkan.compiler import VulkanCompiler
from edgecore_vulkan.options import VulkanOptions


def vulkan_partitioner(compile_options: Mapping[str, Any] | None = None) -> Partitioner:
    """Create a partitioner with the given options; it replaces ExecuTorch's `VulkanPartitioner`."""
    return VulkanCompiler().partitioner(VulkanOptions(**(compile_options or {})), runtime="executorch-1.5")
