"""How backends are found and what they provide. Imports no torch."""

from edgecore.plugin.spec import hookimpl, hookspec
from edgecore.plugin.types import (
    BackendCompiler,
    BackendInfo,
    CompileSpec,
    MemoryNeed,
    NamedBlob,
    OperatorSupport,
    PreprocessResult,
    Problem,
)

__all__ = [
    "BackendCompiler",
    "BackendInfo",
    "CompileSpec",
    "MemoryNeed",
    "NamedBlob",
    "OperatorSupport",
    "PreprocessResult",
    "Problem",
    "hookimpl",
    "hookspec",
]
