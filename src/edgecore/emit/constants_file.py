"""A temporary file for constants that must not occupy memory until the program is written."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator
from typing import IO

from edgecore.format.segments import MappedFile, align


class ConstantsFile:
    """A temporary file that the system deletes once none of its constants is in use."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._end = 0

    def add(self, pieces: Iterator[memoryview], size: int) -> memoryview:
        """Write `size` bytes to the file, and map them into memory, so that pages are read only when accessed."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="edgecore-")
        start = align(self._end, mmap.ALLOCATIONGRANULARITY)
        self._file.seek(start)
        for piece in pieces:
            self._file.write(piece)
        self._file.flush()
        self._end = start + size
        return memoryview(MappedFile(self._file.fileno(), size, access=mmap.ACCESS_READ, offset=start))
