"""PyInstaller's hook for applications that import edgecore: add the runtime, and the installed backends and kernels.

The application receives these parts of a backend's package: the module of the entry point, the metadata (in which
edgecore finds the backend), and the native libraries in the package's folder. A package that needs more files provides
its own hook. EDGECORE_BACKENDS_ALLOW and EDGECORE_BACKENDS_DENY select the backends. The compiler is left out; an
application that compiles models is frozen with `--collect-submodules edgecore` and imports torch.
"""

from __future__ import annotations

from PyInstaller.utils.hooks import collect_data_files, collect_dynamic_libs, copy_metadata

from edgecore.plugin import registry
from edgecore.plugin.installed import entry_points

# Name the modules that importlib or the native module imports: PyInstaller cannot see such imports.
hiddenimports = ["edgecore.errors", "edgecore.runtime.bundled", "json", "nanobind_backend._nb_backend_v1"]
excludedimports = [
    *(f"edgecore.{name}" for name in ("cli", "conformance", "emit", "freezing", "ir", "memory", "partition", "passes")),
    *("edgecore.pipeline", "edgecore.quantize", "edgecore.sdk", "numpy", "pydantic", "torch", "torchao"),
]
_LIBRARIES = ["*.so", "*.so.*", "*.dylib", "*.dll"]

datas = collect_data_files("edgecore", includes=["plugin/installed/*.toml"])
binaries = []

_backends = [provider for provider in registry.providers_here() if not registry.excluded_by(provider)]
for _provider in [*_backends, *entry_points.scan(entry_points.KERNELS)]:
    hiddenimports.append(_provider.module)
    datas += copy_metadata(_provider.distribution)
    binaries += collect_dynamic_libs(_provider.module.partition(".")[0], search_patterns=_LIBRARIES)
