"""Look up the package of a backend that is not installed, in `known_backends.toml`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class KnownBackend:
    """A backend with a published package: its id, its name for users, its package, and one line about it."""

    backend_id: str
    name: str
    package: str
    summary: str


@cache
def known_backends() -> tuple[KnownBackend, ...]:
    """Return all known backends, in the order of the file."""
    table = tomllib.loads(Path(__file__).with_name("known_backends.toml").read_text(encoding="utf-8"))
    return tuple(KnownBackend(backend_id, **row) for backend_id, row in table.items())


def lookup(name_or_id: str) -> KnownBackend | None:
    """Find a known backend by its name or its id. Return None if there is none."""
    return next((row for row in known_backends() if name_or_id in (row.backend_id, row.name)), None)
