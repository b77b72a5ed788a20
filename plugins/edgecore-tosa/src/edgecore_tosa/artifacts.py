"""The files of a compilation that a user asks for."""

from __future__ import annotations

import hashlib
from pathlib import Path

_LETTERS = 12


def artifact_folder(parent: str | None, backend: str, tosa: bytes) -> Path | None:
    """Make the folder for the files of one delegate, named after the bytes of its TOSA graph, and return it.

    Args:
        parent: The option `dump_intermediate_artifacts_to`; None for no files.
        backend: First part of the folder's name.
        tosa: The TOSA graph.
    """
    if parent is None:
        return None
    folder = Path(parent).expanduser() / f"{backend}-{hashlib.sha256(tosa).hexdigest()[:_LETTERS]}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
