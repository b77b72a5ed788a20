"""Compiles PyTorch models for edge devices and runs them. Importing this imports nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgecore.plugin.registry import InstalledBackend

__all__ = ["backends"]


def backends() -> list[InstalledBackend]:
    """The backends that are installed, each with its state: `ok`, `broken` (and why) or `disabled`."""
    from edgecore.plugin import registry

    return registry.backends()
