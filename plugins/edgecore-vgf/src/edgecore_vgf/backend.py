"""The entry point for edgecore: the paths of the delegate's library and of the emulation layer, and version checks."""

from __future__ import annotations

import os

import edgecore_vgf
from edgecore.plugin import BackendInfo, hookimpl, installed_file, own_library


def native_library() -> str:
    """Return the absolute path of the delegate's shared library."""
    return own_library(edgecore_vgf.__path__, "edgecore_vgf")


def emulation_folder() -> str | None:
    """Return the folder of Arm's emulation layer for Vulkan; None if its package is not installed."""
    return installed_file("emulation_layer", "deploy")


def load_options() -> dict[str, str]:
    """Return the load option with the folder of Arm's emulation layer, because the delegate does not search for it.

    This function also sets the environment variable by which the Vulkan loader finds the layer. The delegate does not
    set the variable, because native code must not change the environment while other threads may read it.
    """
    folder = emulation_folder()
    if folder is None:
        return {}
    manifests = os.path.join(folder, "share", "vulkan", "explicit_layer.d")
    # If VK_LAYER_PATH is set, the Vulkan loader ignores VK_ADD_LAYER_PATH: extend VK_LAYER_PATH in that case.
    name = "VK_LAYER_PATH" if "VK_LAYER_PATH" in os.environ else "VK_ADD_LAYER_PATH"
    paths = [path for path in os.environ.get(name, "").split(os.pathsep) if path]
    if manifests not in paths:
        os.environ[name] = os.pathsep.join([manifests, *paths])
    return {"emulation": folder}


def self_test() -> list[tuple[str, bool, str, str]]:
    """Return rows of `edgecore doctor` with the versions of the converter, emulation layer and Vulkan loader."""
    from edgecore_vgf import versions

    return versions.self_test()


@hookimpl
def edgecore_backends() -> list[BackendInfo]:
    """Return the description of the VGF backend."""
    return [
        BackendInfo(
            name="vgf",
            backend_id="VgfBackend",
            summary="Neural graphics: Vulkan's machine-learning extensions",
            compiler="edgecore_vgf.compiler:VgfCompiler",
            native_library=native_library,
            load_options=load_options,
            self_test=self_test,
        )
    ]
