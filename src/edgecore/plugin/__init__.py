"""The interface between edgecore and the packages of backends. Imports no torch.

Its modules:

- `backend_info`: `BackendInfo` and `hookimpl`, which the `__init__` of a backend's package uses
- `api`: the protocols of a backend's compiler, and the data classes that they exchange
- `options`: types for the options of a backend
- `documentation`: tables of options and operators for a README
- `byte_reader`: a reader of blobs that may be damaged
- `hookspecs`: the specification of the hook, for pluggy
- `installed_files`: find libraries and other files of installed packages
- `entry_points`: the entry points of installed packages
- `registry`: choose a backend and import its package
- `known_backends`: names of the packages to install for missing backends
- `kernel_libraries`: libraries of custom operators
- `isolated_import`: import packages in a child process
- `inspect_library`: load a native library in a child process
- `doctor`: the checks of `edgecore doctor`
- `loader_errors`: explain the error messages of the system's dynamic loader
- `manifests`: write the files by which a C++ application finds backends

Loading a file imports `backend_info`, `installed_files`, `entry_points` and `registry`. Therefore these modules import no module that takes
milliseconds to import, such as `typing`, and define `TYPE_CHECKING = False` themselves: see `edgecore.stability`.
"""

from __future__ import annotations

from edgecore.plugin.backend_info import BackendInfo, hookimpl
from edgecore.plugin.installed.files import installed_file, own_library
from edgecore.stability import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from edgecore.plugin.api import (
        BackendCompiler,
        BlobGraph,
        BlobGraphReader,
        BlobNode,
        BlobReader,
        CompiledPartition,
        CompileSpec,
        ConfigurableCompiler,
        LinkingCompiler,
        LowPrecisionCompiler,
        MemoryNeed,
        NamedBlob,
        OperatorSupport,
        PreprocessResult,
        Problem,
        QuantizerRecipe,
        QuantizingCompiler,
        RecipeSupport,
        ReportingCompiler,
        RewriteRecipe,
        Selects,
        TargetingCompiler,
        WeightRoundingCompiler,
    )
    from edgecore.plugin.byte_reader import ByteReader
    from edgecore.plugin.hookspecs import hookspec
    from edgecore.plugin.registry import register
    from edgecore.processes.command import Ended, exit_text, run_command

__all__ = [
    "BackendCompiler",
    "BackendInfo",
    "BlobGraph",
    "BlobGraphReader",
    "BlobNode",
    "BlobReader",
    "ByteReader",
    "CompileSpec",
    "CompiledPartition",
    "ConfigurableCompiler",
    "Ended",
    "LinkingCompiler",
    "LowPrecisionCompiler",
    "MemoryNeed",
    "NamedBlob",
    "OperatorSupport",
    "PreprocessResult",
    "Problem",
    "QuantizerRecipe",
    "QuantizingCompiler",
    "RecipeSupport",
    "ReportingCompiler",
    "RewriteRecipe",
    "Selects",
    "TargetingCompiler",
    "WeightRoundingCompiler",
    "exit_text",
    "hookimpl",
    "hookspec",
    "installed_file",
    "lazy_names",
    "own_library",
    "register",
    "run_command",
]


__getattr__ = lazy_names(
    "edgecore.plugin",
    {
        **dict.fromkeys(__all__, "edgecore.plugin.api"),
        **dict.fromkeys(("Ended", "exit_text", "run_command"), "edgecore.processes.command"),
        "ByteReader": "edgecore.plugin.byte_reader",
        "hookspec": "edgecore.plugin.hookspecs",
        "register": "edgecore.plugin.registry",
    },
)
