"""Files as callers give them: paths, contents, or what was read from them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from edgecore.devtools.trace_buffer import MAGIC, etdump_of_records
from edgecore.errors import FormatError
from edgecore.format import PteFile, embedded_pte, read_pte
from edgecore.format.etdump import ETDump, read_etdump
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
    return read_pte(embedded_pte(content(program)))


def dump_file(trace: Any, program: Any = None) -> ETDump:
    """Return the ETDump of a trace that is given as a path or as its content: an ETDump, or records of firmware.

    Args:
        trace: The trace.
        program: The program that ran, as for `program_file`. Records need it, because they have no names.

    Raises:
        FormatError: The trace is of another kind or damaged, or it has records and `program` is missing.
    """
    found = content(trace)
    if bytes(found[:4]) != MAGIC:
        return read_etdump(found)
    if program is None:
        raise FormatError("the records of firmware have no names; pass the program (a .pte) that ran, too")
    return etdump_of_records(found, program_file(program))


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
