"""The interface between edgecore and the packages of backends. Imports no torch.

Its modules:

- `backend_info`: `BackendInfo` and `hookimpl`, which the `__init__` of a backend's package uses
- `api`: the protocols of a backend's compiler, and the data classes that they exchange
- `options`: types of a backend's options, and their validation
- `documentation`: tables of options and operators for a README
- `byte_reader`: a reader of blobs that may be damaged
- `hookspecs`: the specification of the hook, for pluggy
- `registry`: finds the backend that a file or a user names, and imports its package
- `installed`: entry points, files, kernel libraries and manifests of installed packages
- `diagnosis`: the checks of `edgecore doctor`, which import packages and load libraries in child processes

Loading a file imports `backend_info`, `installed.files`, `installed.entry_points` and `registry`. So these import no
slow module such as `typing`, and define `TYPE_CHECKING = False` themselves: see `edgecore.stability`.
"""

from __future__ import annotations

from edgecore.stability import public_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from edgecore.plugin.api import BackendCompiler as BackendCompiler
    from edgecore.plugin.api import BlobGraph as BlobGraph
    from edgecore.plugin.api import BlobGraphReader as BlobGraphReader
    from edgecore.plugin.api import BlobNode as BlobNode
    from edgecore.plugin.api import BlobReader as BlobReader
    from edgecore.plugin.api import CompiledPartition as CompiledPartition
    from edgecore.plugin.api import CompileSpec as CompileSpec
    from edgecore.plugin.api import ConfigurableCompiler as ConfigurableCompiler
    from edgecore.plugin.api import CrossCompiler as CrossCompiler
    from edgecore.plugin.api import LinkingCompiler as LinkingCompiler
    from edgecore.plugin.api import LowPrecisionCompiler as LowPrecisionCompiler
    from edgecore.plugin.api import MemoryNeed as MemoryNeed
    from edgecore.plugin.api import NamedBlob as NamedBlob
    from edgecore.plugin.api import OperatorSupport as OperatorSupport
    from edgecore.plugin.api import PreprocessResult as PreprocessResult
    from edgecore.plugin.api import Problem as Problem
    from edgecore.plugin.api import QuantizerRecipe as QuantizerRecipe
    from edgecore.plugin.api import QuantizingCompiler as QuantizingCompiler
    from edgecore.plugin.api import RecipeSupport as RecipeSupport
    from edgecore.plugin.api import ReportingCompiler as ReportingCompiler
    from edgecore.plugin.api import RewriteRecipe as RewriteRecipe
    from edgecore.plugin.api import Selects as Selects
    from edgecore.plugin.api import TargetingCompiler as TargetingCompiler
    from edgecore.plugin.api import WeightRoundingCompiler as WeightRoundingCompiler
    from edgecore.plugin.backend_info import BackendInfo as BackendInfo
    from edgecore.plugin.backend_info import hookimpl as hookimpl
    from edgecore.plugin.byte_reader import ByteReader as ByteReader
    from edgecore.plugin.hookspecs import hookspec as hookspec
    from edgecore.plugin.installed.files import installed_file as installed_file
    from edgecore.plugin.installed.files import own_library as own_library
    from edgecore.plugin.registry import register as register
    from edgecore.processes.command import Ended as Ended
    from edgecore.processes.command import exit_text as exit_text
    from edgecore.processes.command import run_command as run_command
    from edgecore.stability import lazy_names as lazy_names

__all__, __getattr__ = public_names(
    "edgecore.plugin",
    {
        "edgecore.plugin.api": (
            "BackendCompiler BlobGraph BlobGraphReader BlobNode BlobReader CompiledPartition CompileSpec "
            "ConfigurableCompiler CrossCompiler LinkingCompiler LowPrecisionCompiler MemoryNeed NamedBlob "
            "OperatorSupport PreprocessResult Problem QuantizerRecipe QuantizingCompiler RecipeSupport "
            "ReportingCompiler RewriteRecipe Selects TargetingCompiler WeightRoundingCompiler"
        ),
        "edgecore.plugin.backend_info": "BackendInfo hookimpl",
        "edgecore.plugin.byte_reader": "ByteReader",
        "edgecore.plugin.hookspecs": "hookspec",
        "edgecore.plugin.installed.files": "installed_file own_library",
        "edgecore.plugin.registry": "register",
        "edgecore.processes.command": "Ended exit_text run_command",
        "edgecore.stability": "lazy_names",
    },
)
