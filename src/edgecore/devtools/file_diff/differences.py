"""The differences of two files, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SCHEMA = "edgecore.diff.v1"
SECTIONS = ("size", "signature", "operators", "weights", "memory", "time")
"""The parts of a comparison, which `--fail-on` names."""


@dataclass(slots=True)
class Differences:
    """The differences of two files; each section is data for JSON, with the key `different`.

    Attributes:
        a: Name of the first file.
        b: Name of the second file.
        identical: The files have the same bytes.
        size: Bytes by kind.
        signature: Inputs and outputs that differ, and methods that only one file has.
        operators: Operators that moved, have other arguments, or that only one file has, and numbers of delegates.
        weights: Weights that changed, moved, or that only one file has.
        memory: Arenas, peaks with their owners, and the needs of delegates.
        time: Medians and their difference; None if no times are known.
    """

    a: str
    b: str
    identical: bool
    size: dict[str, Any]
    signature: dict[str, Any]
    operators: dict[str, Any]
    weights: dict[str, Any]
    memory: dict[str, Any]
    time: dict[str, Any] | None = None

    def different(self) -> list[str]:
        """Return the names of the sections that differ."""
        return [name for name in SECTIONS if (getattr(self, name) or {}).get("different")]

    def as_dict(self) -> dict[str, Any]:
        """Return everything for JSON; docs/ci.md lists the keys."""
        sections = {name: getattr(self, name) for name in SECTIONS}
        head = {"schema": SCHEMA, "a": self.a, "b": self.b, "identical": self.identical}
        return {**head, "different": self.different(), **sections}
