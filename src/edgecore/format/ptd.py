"""Read and write `.ptd` files, which hold tensors and delegates' named data outside of the program that uses them.

Layout: u32 root offset, "FT01", at byte 8 the extended header, the rest of the flatbuffer, padding, then the segments,
each at a multiple of lcm(segment alignment, its own alignment). Extended header: "FH01", u32 length (40), u64 number of
bytes inserted into the flatbuffer (48: the header and 8 bytes of padding), u64 size of the flatbuffer without these,
u64 start of the segments, u64 size of all segments.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import lcm, prod
from typing import BinaryIO

from edgecore.errors import FormatError

from .dtypes import SCALAR_TYPE_SIZES, ScalarType
from .flat import Buffer, pack, scalar, string, table, tables, unpack, vector
from .program import DataSegment
from .segments import DEFAULT_ALIGNMENTS, Alignments, Layout, Segment, SegmentReader, align, write_chunks

PTD_IDENTIFIER = b"FT01"
_HEADER_MAGIC = b"FH01"
_HEADER = struct.Struct("<4sIQQQQ8x")
_HEADER_LENGTH = 40


@dataclass(slots=True)
class TensorLayout:
    scalar_type: ScalarType = scalar(0, "i8", enum=ScalarType)
    sizes: list[int] = vector(1, "i32")
    dim_order: list[int] = vector(2, "u8")

    @property
    def nbytes(self) -> int:
        """Size of the tensor in bytes."""
        return prod(self.sizes) * SCALAR_TYPE_SIZES[self.scalar_type]


@dataclass(slots=True)
class NamedTensor:
    key: str = string(0)
    segment_index: int = scalar(1, "u32")
    tensor_layout: TensorLayout | None = table(2, TensorLayout)


@dataclass(slots=True)
class FlatTensor:
    """The root table of a `.ptd` file."""

    version: int = scalar(0, "u32")
    segments: list[DataSegment] = tables(1, DataSegment)
    named_data: list[NamedTensor] = tables(2, NamedTensor)


@dataclass(slots=True)
class ExternalData:
    """An entry of a `.ptd` file: a tensor, or with `layout` None the named data of a delegate.

    Entries with the same `data` object share one segment. A file does not record `alignment`. After reading, it is the
    largest power of two, up to 4096, that divides the position of the data.
    """

    data: Buffer
    layout: TensorLayout | None = None
    alignment: int = field(default=1, compare=False)


@dataclass(slots=True)
class PtdFile:
    """The entries of a `.ptd` file by name.

    `read_ptd` sets `segments` to the segments of the file; `write_ptd` makes new segments and ignores these. The
    alignment of a segment is the larger of its value in `alignments` and the alignment of its entry.
    """

    entries: dict[str, ExternalData] = field(default_factory=dict)
    segments: list[Segment] = field(default_factory=list, compare=False)
    alignments: Alignments = field(default=DEFAULT_ALIGNMENTS, compare=False)


def write_ptd(ptd: PtdFile) -> bytes:
    """Return the content of a `.ptd` file with the entries of `ptd`.

    Raises:
        FormatError: The size of an entry's data does not match its layout.
    """
    return b"".join(_chunks(ptd))


def write_ptd_to(ptd: PtdFile, file: BinaryIO) -> int:
    """Write `ptd` to `file` piece by piece, without a copy of the data in memory; return the number of bytes."""
    return write_chunks(_chunks(ptd), file)


def _chunks(ptd: PtdFile) -> Iterator[Buffer]:
    layout = Layout(ptd.alignments)
    alignments: dict[int, int] = {}
    for entry in ptd.entries.values():
        alignments[id(entry.data)] = lcm(alignments.get(id(entry.data), 1), max(entry.alignment, 1))
    indices: dict[int, int] = {}
    named = []
    for key, entry in sorted(ptd.entries.items()):  # sort the entries, so that equal data makes equal files
        size = memoryview(entry.data).nbytes
        if entry.layout is not None and entry.layout.nbytes != size:
            raise FormatError(
                f"'{key}' has {size} bytes, but sizes {entry.layout.sizes} need {entry.layout.nbytes} bytes"
            )
        identity = id(entry.data)
        if identity not in indices:
            indices[identity] = len(layout.segments)
            layout.add([entry.data], alignments[identity])
        named.append(NamedTensor(key, indices[identity], entry.layout))
    flatbuffer = pack(FlatTensor(0, layout.segments, named), PTD_IDENTIFIER)
    end = len(flatbuffer) + _HEADER.size
    base = align(end, layout.alignment)
    yield struct.pack("<I", int.from_bytes(flatbuffer[:4], "little") + _HEADER.size) + PTD_IDENTIFIER
    yield _HEADER.pack(_HEADER_MAGIC, _HEADER_LENGTH, _HEADER.size, len(flatbuffer), base, layout.end)
    yield memoryview(flatbuffer)[8:]
    yield bytes(base - end)
    yield from layout.chunks(base, base)


def read_ptd(buffer: Buffer) -> PtdFile:
    """Read a `.ptd` file from `buffer` (any object with the buffer protocol, such as an mmap).

    The data of the result consists of views into `buffer`, not copies.

    Raises:
        FormatError: The buffer is not a `.ptd` file, or damaged.
    """
    view = memoryview(buffer).cast("B")
    if len(view) < 8 or bytes(view[4:8]) != PTD_IDENTIFIER:
        raise FormatError("not a .ptd file: no identifier 'FT01' at byte 4")
    if len(view) < 8 + _HEADER_LENGTH or bytes(view[8:12]) != _HEADER_MAGIC:
        raise FormatError("the file has no extended header 'FH01' at byte 8")
    length, offset, size, base, data_size = struct.unpack_from("<IQQQQ", view, 12)
    if length < _HEADER_LENGTH:
        raise FormatError(f"the extended header says that it has {length} bytes; at least {_HEADER_LENGTH} are needed")
    if offset + size > len(view) or base + data_size > len(view):
        raise FormatError(
            f"truncated: the header announces tables up to byte {offset + size} and data up to byte {base + data_size},"
            f" but the file has {len(view)} bytes"
        )
    if base < offset + size:
        raise FormatError(f"segments start at byte {base}, inside the tables that end at byte {offset + size}")
    root = unpack(FlatTensor, view[: offset + size], PTD_IDENTIFIER)
    if root.version != 0:
        raise FormatError(f"version {root.version} of the .ptd format is not supported; only version 0 is")
    file = SegmentReader(view, root.segments, base, base + data_size)
    ptd = PtdFile()
    for entry in root.named_data:
        if entry.key in ptd.entries:
            raise FormatError(f"the key '{entry.key}' occurs twice")
        data = file.segment(entry.segment_index, "named")
        ptd.entries[entry.key] = ExternalData(data, entry.tensor_layout, file.alignment(entry.segment_index))
    ptd.segments = file.used()
    return ptd
