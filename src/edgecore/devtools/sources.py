"""Files as callers give them: paths, contents, or what was read from them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from edgecore.format import BPTE_IDENTIFIER, PteFile, read_bpte, read_pte
from edgecore.format.etrecord import EtRecordFile, read_etrecord


def content(file: Any) -> Any:
    """Return the content of a file that is given as a path or as its content."""
    return Path(file).read_bytes() if isinstance(file, (str, os.PathLike)) else file


def program_file(program: Any) -> PteFile:
    """Return the program of a `.pte` or `.bpte`, given as a path, as its content or as the file that was read.

    Raises:
        FormatError: The file is of another kind, or damaged.
    """
    if isinstance(program, PteFile):
        return program
    found = content(program)
    return read_pte(read_bpte(found).program if bytes(found[4:8]) == BPTE_IDENTIFIER else found)


def record_file(etrecord: Any) -> EtRecordFile:
    """Return an ETRecord that is given as a path, as its content, as the file that was read or by `get_etrecord`.

    Raises:
        FormatError: The file is of another kind, or damaged.
    """
    if isinstance(etrecord, EtRecordFile):
        return etrecord
    if hasattr(etrecord, "content"):  # what `get_etrecord` returns
        made: EtRecordFile = etrecord.content()
        return made
    return read_etrecord(etrecord)
