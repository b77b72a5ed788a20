"""The VGF backend. Loading a file imports this module, so it must not import torch, numpy or Arm's packages."""

from __future__ import annotations

import os

from edgecore.plugin import BackendInfo, hookimpl, installed_file, lazy_names, own_library

__getattr__ = lazy_names(
    "edgecore_vgf",
    {
        "VgfCompileSpec": "edgecore_vgf.compile_spec",
        "VgfPartitioner": "edgecore_vgf.partitioner",
        "VgfQuantizer": "edgecore_vgf.quantizer",
    },
)


executorch_modules = {
    "executorch.backends.arm.vgf": {
        "VgfCompileSpec": "edgecore_vgf.compile_spec:VgfCompileSpec",
        "VgfPartitioner": "edgecore_vgf.partitioner:VgfPartitioner",
    },
    "executorch.backends.arm.quantizer": {
        "VgfQuantizer": "edgecore_vgf.quantizer:VgfQuantizer",
        "get_symmetric_quantization_config": "edgecore_tosa.quantizer:get_symmetric_quantization_config",
    },
}
"""Names of ExecuTorch for `python -m edgecore.executorch`, and their counterparts here."""


def native_library() -> str:
    """Return the absolute path of the delegate's shared library."""
    return own_library(__path__, "edgecore_vgf")


def emulation_folder() -> str | None:
    """Return the folder of Arm's emulation layer, with its libraries; None if its package is not installed."""
    return installed_file("emulation_layer", "deploy")


def load_options() -> dict[str, str]:
    """Return the load option with the folder of the emulation layer; the delegate does not search for it.

    The Vulkan loader finds the layer by an environment variable. It is set here, before the library is loaded, and not by
    the delegate, since programs of other languages must not change the environment while other threads may read it.
    """
    folder = emulation_folder()
    if folder is None:
        return {}
    manifests = os.path.join(folder, "share", "vulkan", "explicit_layer.d")
    name = "VK_LAYER_PATH" if "VK_LAYER_PATH" in os.environ else "VK_ADD_LAYER_PATH"  # the first replaces the second
    paths = [path for path in os.environ.get(name, "").split(os.pathsep) if path]
    if manifests not in paths:
        os.environ[name] = os.pathsep.join([manifests, *paths])
    return {"emulation": folder}


def self_test() -> list[tuple[str, bool, str, str]]:
    """Return the versions of the converter, the loader and the layer for `edgecore doctor`; see `versions`."""
    from edgecore_vgf import versions

    return versions.self_test()


@hookimpl
def edgecore_backends() -> list[BackendInfo]:
    """Return the backend of this package."""
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
