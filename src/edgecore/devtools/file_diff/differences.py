"""The differences of two files, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SCHEMA = "edgecore.diff.v1"
SECTIONS = ("size", "signature", "operators", "weights", "memory", "time")
"""The sections of a comparison, as `--fail-on` names them."""


@dataclass(slots=True)
class Differences:
    """The differences of two files.

    The attributes from `size` on are sections: JSON data, whose key `different` tells if the files differ there.

    Attributes:
        a: Name of the first file.
        b: Name of the second file.
        identical: True if the files have the same bytes.
        size: Bytes of the weights, delegate blobs, header, etc. in each file.
        signature: The inputs and outputs that differ, and the methods that only one file has.
        operators: The operators that moved to another backend, have other arguments, or are in only one file; the
            number of delegates.
        weights: The weights that changed, moved to another file or delegate, or are in only one file.
        memory: Sizes of arenas, peaks with the largest tensors, and the memory that delegates declare.
        time: The medians and their difference; None if no times are known.
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
        """Return the names of the sections, such as "size", in which the files differ."""
        return [name for name in SECTIONS if (getattr(self, name) or {}).get("different")]

    def as_dict(self) -> dict[str, Any]:
        """Return all differences as a dict for JSON; docs/ci.md lists its keys."""
        sections = {name: getattr(self, name) for name in SECTIONS}
        head = {"schema": SCHEMA, "a": self.a, "b": self.b, "identical": self.identical}
        return {**head, "different": self.different(), **sections}
