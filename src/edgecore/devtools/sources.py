"""Files as callers give them: paths, contents, or what was read from them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from edgecore.errors import ExecutionError, FormatError
from edgecore.format import BPTE_IDENTIFIER, PteFile, read_bpte, read_pte
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
    found = content(program)
    return read_pte(read_bpte(found).program if bytes(found[4:8]) == BPTE_IDENTIFIER else found)


RECORDS_IDENTIFIER = b"ECTR"


def etdump_file(etdump: Any, program: Any = None) -> ETDump:
    """Return a trace: an ETDump, or the records of firmware (`edgecore/trace_buffer.h`), given as a path or a content.

    Args:
        etdump: The trace.
        program: The `.pte` or `.bpte` that ran, which has the names of records.

    Raises:
        FormatError: The file is of another kind, damaged, or of another program; or it has records, and there is no
            program.
    """
    found = content(etdump)
    if bytes(found[:4]) != RECORDS_IDENTIFIER:
        return read_etdump(found)
    if program is None:
        raise FormatError("these are records of a device, which have no names; pass the program that ran, too")
    from edgecore._runtime import open_program

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "converted.etdp"
        opened = open_program(content(program), [], {}, "mmap")
        try:
            opened.convert_trace(bytes(found), os.fsencode(path))
        except ExecutionError as error:
            raise FormatError(str(error)) from error
        return read_etdump(path.read_bytes())


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
