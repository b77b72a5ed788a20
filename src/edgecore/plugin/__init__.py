"""How backends are found and what they provide. Imports no torch, and of this package only what loading a file needs."""

from __future__ import annotations

from edgecore.plugin.declaration import BackendInfo, hookimpl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from edgecore.plugin.byte_reader import ByteReader
    from edgecore.plugin.registry import register
    from edgecore.plugin.spec import hookspec
    from edgecore.plugin.types import (
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


def __getattr__(name: str) -> Any:
    """Import the other public names on first use."""
    if name not in __all__:
        raise AttributeError(f"module 'edgecore.plugin' has no attribute {name!r}")
    from importlib import import_module

    homes = {"ByteReader": "byte_reader", "hookspec": "spec", "register": "registry"}
    return getattr(import_module(f"edgecore.plugin.{homes.get(name, 'types')}"), name)
