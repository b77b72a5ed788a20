"""The interface between edgecore and the packages of backends. Imports no torch.

| module | holds |
|---|---|
| `backend_info` | what the `__init__` of a backend's package needs: `BackendInfo`, `hookimpl` |
| `api` | the compile side of a backend: protocols and the data that they exchange |
| `options`, `documentation`, `byte_reader` | fields of options, tables for a README, a reader of blobs |
| `hookspecs` | the hook, for pluggy |
| `entry_points`, `registry`, `known_backends` | entry points of installed packages; choosing and importing one; who provides what is missing |
| `kernel_libraries` | libraries of custom operators |
| `isolated_import`, `inspect_library` | importing packages, and loading libraries, in other processes |
| `doctor`, `loader_errors`, `manifests` | diagnosis; messages of a system's loader; files by which C++ finds backends |

Loading a file imports `backend_info`, `entry_points` and `registry`. They do without the modules that take milliseconds to
import, `typing` among them: hence `TYPE_CHECKING = False`, which type checkers take for `typing.TYPE_CHECKING`.
"""

from __future__ import annotations

from edgecore.plugin.backend_info import BackendInfo, hookimpl
from edgecore.stability import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from edgecore.plugin.api import (
        BackendCompiler,
        BlobReader,
        CompileSpec,
        ConfigurableCompiler,
        MemoryNeed,
        NamedBlob,
        OperatorSupport,
        PreprocessResult,
        Problem,
        QuantizingCompiler,
        Recipe,
        ReportingCompiler,
        RewriteRecipe,
    )
    from edgecore.plugin.byte_reader import ByteReader
    from edgecore.plugin.hookspecs import hookspec
    from edgecore.plugin.registry import register

__all__ = [
    "BackendCompiler",
    "BackendInfo",
    "BlobReader",
    "ByteReader",
    "CompileSpec",
    "ConfigurableCompiler",
    "MemoryNeed",
    "NamedBlob",
    "OperatorSupport",
    "PreprocessResult",
    "Problem",
    "QuantizingCompiler",
    "Recipe",
    "ReportingCompiler",
    "RewriteRecipe",
    "hookimpl",
    "hookspec",
    "register",
]


__getattr__ = lazy_names(
    "edgecore.plugin",
    {
        **dict.fromkeys(__all__, "edgecore.plugin.api"),
        "ByteReader": "edgecore.plugin.byte_reader",
        "hookspec": "edgecore.plugin.hookspecs",
        "register": "edgecore.plugin.registry",
    },
)
