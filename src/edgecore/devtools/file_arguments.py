"""Accept files as paths, contents or parsed objects."""

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
    """Read `file` if it is a path; return any other value unchanged."""
    return Path(file).read_bytes() if isinstance(file, (str, os.PathLike)) else file


def program_file(program: Any) -> PteFile:
    """Return the program of a `.pte` or `.bpte`: a path, bytes, or a `PteFile`, which is returned as it is.

    Raises:
        FormatError: The file is of another kind, or damaged.
    """
    if isinstance(program, PteFile):
        return program
    return read_pte(embedded_pte(content(program)))


def dump_file(trace: Any, program: Any = None) -> ETDump:
    """Return the ETDump of a trace: a path or bytes of an ETDump or of firmware records.

    Args:
        trace: The trace.
        program: The program that ran, as for `program_file`. Records need it, because they have no names.

    Raises:
        FormatError: The trace is of another kind or damaged, or it has records and `program` is missing.
    """
    raw = content(trace)
    if bytes(raw[:4]) != MAGIC:
        return read_etdump(raw)
    if program is None:
        raise FormatError("the records of firmware have no names; pass the program (a .pte) that ran, too")
    return etdump_of_records(raw, program_file(program))


def record_file(etrecord: Any) -> EtRecordFile:
    """Return an ETRecord: a path, bytes, an `EtRecordFile`, or the result of `get_etrecord`.

    Raises:
        FormatError: The file is of another kind, or damaged.
    """
    if isinstance(etrecord, EtRecordFile):
        return etrecord
    if hasattr(etrecord, "content"):  # an `ETRecord`
        made: EtRecordFile = etrecord.content()
        return made
    return read_etrecord(etrecord)
