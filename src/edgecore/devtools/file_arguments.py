"""Read files that callers pass as paths, as bytes or as parsed objects."""

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
    """Parse the program of a `.pte` or `.bpte` from a path or bytes; return a `PteFile` unchanged.

    Raises:
        FormatError: The file is of another kind, or damaged.
    """
    if isinstance(program, PteFile):
        return program
    return read_pte(embedded_pte(content(program)))


def dump_file(trace: Any, program: Any = None) -> ETDump:
    """Convert a trace to an ETDump. The trace is the path or bytes of an ETDump, or of trace records of firmware.

    Args:
        trace: The trace.
        program: The program that ran, as for `program_file`. It is needed for firmware's records, which contain no
            names.

    Raises:
        FormatError: The trace is of another kind or damaged, or it holds records and `program` is missing.
    """
    raw = content(trace)
    if bytes(raw[:4]) != MAGIC:
        return read_etdump(raw)
    if program is None:
        raise FormatError("the records of firmware have no names; pass the program (a .pte) that ran, too")
    return etdump_of_records(raw, program_file(program))


def record_file(etrecord: Any) -> EtRecordFile:
    """Parse an ETRecord from a path or bytes; accept an `EtRecordFile` and the result of `get_etrecord`, too.

    Raises:
        FormatError: The file is of another kind, or damaged.
    """
    if isinstance(etrecord, EtRecordFile):
        return etrecord
    if hasattr(etrecord, "content"):  # an `ETRecord`, the result of `get_etrecord`
        parsed: EtRecordFile = etrecord.content()
        return parsed
    return read_etrecord(etrecord)
