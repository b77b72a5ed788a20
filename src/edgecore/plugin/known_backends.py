"""Which package provides a backend that is not installed: `known_backends.toml`, read when somebody asks."""

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
    """A row of the table."""

    backend_id: str
    name: str
    package: str
    summary: str


@cache
def known_backends() -> tuple[KnownBackend, ...]:
    """All rows, in the order of the file."""
    table = tomllib.loads(Path(__file__).with_name("known_backends.toml").read_text(encoding="utf-8"))
    return tuple(KnownBackend(backend_id, **row) for backend_id, row in table.items())


def lookup(name_or_id: str) -> KnownBackend | None:
    """The row of a backend id or of a backend's name."""
    return next((row for row in known_backends() if name_or_id in (row.backend_id, row.name)), None)
