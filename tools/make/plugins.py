"""The entries of `plugins.toml`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tomllib
from steps import ROOT


@dataclass(frozen=True)
class Plugin:
    """An entry of `plugins.toml`, whose head documents the fields."""

    name: str
    download: str = ""
    extras: Sequence[str] = ()
    groups: Sequence[str] = ()
    needs: Sequence[str] = ()
    sources: Sequence[str] = ()
    optional: bool = False
    conformance: Sequence[str] | None = None
    cpp_tests: bool = False
    sanitized: Sequence[str] = ()
    platforms: Sequence[str] = ()

    @property
    def folder(self) -> str:
        return f"plugins/edgecore-{self.name}"


def read_plugins() -> dict[str, Plugin]:
    """Return the plugins by name, in the order of the file."""
    entries = tomllib.loads((ROOT / "plugins.toml").read_text(encoding="utf-8"))
    return {name: Plugin(name, **entry) for name, entry in entries.items()}
