"""Find the versions of the model converter, the Vulkan loader and the emulation layer, for `edgecore doctor vgf`."""

from __future__ import annotations

import ctypes
from importlib.metadata import PackageNotFoundError, version

from edgecore_vgf.converter import PACKAGE

_LAYER = "ai-ml-emulation-layer-for-vulkan"
_LOADER = "libvulkan.so.1"


def self_test() -> list[tuple[str, bool, str, str]]:
    """Return rows of `edgecore doctor` (check, passed, detail, remedy) with the versions of the backend's tools."""
    converter, layer = installed(PACKAGE), installed(_LAYER)
    return [
        ("model converter", True, converter or "not installed; only compiling needs it", ""),
        (
            "emulation layer",
            True,
            layer or "not installed; only devices whose drivers have VK_ARM_tensors and VK_ARM_data_graph run files",
            "",
        ),
        _loader_row(),
    ]


def installed(package: str) -> str | None:
    """Return the version of a pip package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def loader_version(path: str) -> tuple[int, int, int] | None:
    """Return the version of the Vulkan loader at a path; None if the library does not load."""
    number = ctypes.c_uint32()
    try:
        if ctypes.CDLL(path).vkEnumerateInstanceVersion(ctypes.byref(number)):
            return None
    except (OSError, AttributeError):
        return None
    return number.value >> 22 & 0x7F, number.value >> 12 & 0x3FF, number.value & 0xFFF


def _loader_row() -> tuple[str, bool, str, str]:
    numbers = loader_version(_LOADER)
    if numbers is None:
        return "Vulkan loader", False, f"{_LOADER} does not load", "apt-get install libvulkan1"
    return "Vulkan loader", True, ".".join(map(str, numbers)), ""
