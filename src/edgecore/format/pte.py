"""Read and write `.pte` files: the program's flatbuffer, followed by segments of data.

Layout: u32 root offset, "ET12", at byte 8 the extended header (below), the rest of the flatbuffer, padding, then the
segments in the order constants, mutable data, delegate blobs, named data, each at a multiple of lcm(segment alignment,
its own alignment). Named data that equals a constant tensor is a part of the segment with the constants. Extended
header: "eh00", u32 length (32), u64 program_size, u64 segment_base_offset, u64 segment_data_size.
"""

from __future__ import annotations

import hashlib
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import lcm
from typing import BinaryIO

from edgecore.errors import FormatError

from .flat import Buffer, pack, unpack
from .program import (
    PROGRAM_IDENTIFIER,
    BackendDelegate,
    BackendDelegateDataReference,
    BackendDelegateInlineData,
    ConstantBuffer,
    DataLocation,
    DataSegment,
    ExecutionPlan,
    NamedData,
    Program,
    SubsegmentOffsets,
)
from .segments import (
    CONSTANT_ALIGNMENT,
    DEFAULT_ALIGNMENTS,
    SEGMENT_ALIGNMENT,
    Alignments,
    Layout,
    Segment,
    SegmentReader,
    align,
    parts,
    write_chunks,
)

_HEADER_MAGIC = b"eh00"
_HEADER = struct.Struct("<4sIQQQ")


@dataclass(slots=True)
class NamedBlob:
    """Named data: bytes that delegates find by a key. Keys with the same `data` object share one segment.

    A file does not record `alignment`. After reading, it is the largest power of two, up to 4096, that divides the
    position of the data.
    """

    data: Buffer
    alignment: int = field(default=1, compare=False)


@dataclass(slots=True)
class PteFile:
    """A program and its data.

    Attributes:
        program: The tables of the program.
        constants: Entry i holds the bytes of constant tensors with `data_buffer_idx` i; entry 0 is an empty
            placeholder. After reading, an entry may end in up to 15 bytes of padding.
        mutable: Entry i holds the initial content of mutable buffers with `data_buffer_idx` i, and entry 0 is an empty
            placeholder; the list is empty if the program has no such content.
        delegate_blobs: The blobs, to which `BackendDelegate.processed.index` refers.
        named_data: The named data by key.
        segments: The segments of the file that was read; `write_pte` makes new segments and ignores these.
        alignments: Alignments of the file that `write_pte` writes; a file does not record them.
    """

    program: Program
    constants: list[Buffer] = field(default_factory=lambda: [b""])
    mutable: list[Buffer] = field(default_factory=list)
    delegate_blobs: list[Buffer] = field(default_factory=list)
    named_data: dict[str, NamedBlob] = field(default_factory=dict)
    segments: list[Segment] = field(default_factory=list, compare=False)
    alignments: Alignments = field(default=DEFAULT_ALIGNMENTS, compare=False)

    def delegate_blob(self, delegate: BackendDelegate) -> Buffer:
        """Return the blob of `delegate`.

        Raises:
            FormatError: The delegate refers to a blob that does not exist.
        """
        index = delegate.processed.index if delegate.processed else -1
        if not 0 <= index < len(self.delegate_blobs):
            raise FormatError(f"delegate '{delegate.id}' refers to blob {index} of {len(self.delegate_blobs)}")
        return self.delegate_blobs[index]

    def inline(self) -> Program:
        """Return the tables of the program with constants and blobs inside them; the data is not copied."""
        plans = [
            replace(
                plan,
                delegates=[replace(delegate, processed=_inline(delegate.processed)) for delegate in plan.delegates],
            )
            for plan in self.program.execution_plan
        ]
        return replace(
            self.program,
            execution_plan=plans,
            constant_buffer=[ConstantBuffer(data) for data in self.constants],
            backend_delegate_data=[BackendDelegateInlineData(blob) for blob in self.delegate_blobs],
        )


def _inline(reference: BackendDelegateDataReference | None) -> BackendDelegateDataReference | None:
    return reference and BackendDelegateDataReference(DataLocation.INLINE, reference.index)


def write_pte(pte: PteFile) -> bytes:
    """Return the content of a `.pte` file with the program and the data of `pte`.

    Raises:
        FormatError: A value does not fit its field, or a delegate refers to a blob that does not exist.
    """
    return b"".join(_chunks(pte))


def write_pte_to(pte: PteFile, file: BinaryIO) -> int:
    """Write `pte` to `file` piece by piece, without a copy of the data in memory; return the number of bytes."""
    return write_chunks(_chunks(pte), file)


def _chunks(pte: PteFile) -> Iterator[Buffer]:
    layout = Layout(pte.alignments)
    constant_segment = _add_tensors(layout, pte.constants, "constants") or SubsegmentOffsets(0, [0])
    mutable = _add_tensors(layout, pte.mutable, "mutable")
    references, has_empty = _add_delegates(layout, pte.delegate_blobs)
    program = replace(
        pte.program,
        execution_plan=[_with_references(plan, references) for plan in pte.program.execution_plan],
        constant_buffer=None,
        backend_delegate_data=[BackendDelegateInlineData()] if has_empty else [],
        constant_segment=constant_segment,
        mutable_data_segments=[mutable] if mutable else None,
        named_data=_add_named(layout, pte.named_data, _places(pte.constants, constant_segment)),
        segments=layout.segments,
    )
    flatbuffer = pack(program, PROGRAM_IDENTIFIER)
    program_size = len(flatbuffer) + _HEADER.size
    base = align(program_size, layout.alignment) if layout.segments else 0
    root = int.from_bytes(flatbuffer[:4], "little") + _HEADER.size
    yield struct.pack("<I", root) + PROGRAM_IDENTIFIER
    yield _HEADER.pack(_HEADER_MAGIC, _HEADER.size, program_size, base, layout.end)
    yield memoryview(flatbuffer)[8:]
    yield from layout.chunks(base, program_size)


def _add_tensors(layout: Layout, buffers: Sequence[Buffer], name: str) -> SubsegmentOffsets | None:
    if buffers and memoryview(buffers[0]).nbytes:
        raise FormatError(f"{name}[0] is the placeholder for tensors without data and must be empty")
    if len(buffers) < 2:
        return None
    return SubsegmentOffsets(len(layout.segments), [0, *layout.add_tensors(buffers[1:])])


def _add_delegates(layout: Layout, blobs: Sequence[Buffer]) -> tuple[list[BackendDelegateDataReference], bool]:
    """Add a segment for each blob; return references to the segments, and True if a blob is empty.

    Equal blobs share a segment. Empty blobs have no segment; they refer to a common empty entry in the flatbuffer
    (`backend_delegate_data`).
    """
    lengths = Counter(memoryview(blob).nbytes for blob in blobs)
    by_content: dict[tuple[int, bytes], BackendDelegateDataReference] = {
        (0, b""): BackendDelegateDataReference(DataLocation.INLINE, 0)
    }
    references = []
    for blob in blobs:
        length = memoryview(blob).nbytes
        key = (length, hashlib.sha256(blob).digest() if length and lengths[length] > 1 else b"")
        if key not in by_content:
            by_content[key] = BackendDelegateDataReference(DataLocation.SEGMENT, len(layout.segments))
            layout.add([blob], 1)
        references.append(by_content[key])
    return references, lengths[0] > 0


def _with_references(plan: ExecutionPlan, references: Sequence[BackendDelegateDataReference]) -> ExecutionPlan:
    delegates = []
    for delegate in plan.delegates:
        index = delegate.processed.index if delegate.processed else -1
        if not 0 <= index < len(references):
            raise FormatError(
                f"method '{plan.name}', delegate '{delegate.id}' refers to blob {index} of {len(references)}"
            )
        delegates.append(replace(delegate, processed=references[index]))
    return replace(plan, delegates=delegates)


def _places(constants: Sequence[Buffer], segment: SubsegmentOffsets) -> dict[int, list[tuple[Buffer, int]]]:
    """Map each length in bytes, rounded up to the alignment, to the constants of this length and their offsets."""
    places: dict[int, list[tuple[Buffer, int]]] = {}
    for tensor, offset in zip(constants[1:], segment.offsets[1:], strict=True):
        places.setdefault(align(memoryview(tensor).nbytes, CONSTANT_ALIGNMENT), []).append((tensor, offset))
    return places


def _add_named(
    layout: Layout, named: dict[str, NamedBlob], constants: dict[int, list[tuple[Buffer, int]]]
) -> list[NamedData] | None:
    """Add named data sorted by key, so that equal programs make equal files.

    Data that equals a constant tensor, such as a weight that an embedding shares with the output layer, is stored once:
    its segment is a part of the segment with the constants, and has only the alignment that the data itself requires.
    """
    alignments: dict[int, int] = {}
    for blob in named.values():
        alignments[id(blob.data)] = lcm(alignments.get(id(blob.data), 1), max(blob.alignment, 1))
    shares = layout.alignments.segment == SEGMENT_ALIGNMENT
    indices: dict[int, int] = {}
    entries = []
    for key in sorted(named):
        data = named[key].data
        if id(data) not in indices:
            indices[id(data)] = len(layout.segments)
            place = _place_of(data, alignments[id(data)], constants) if shares else None
            if place is None:
                layout.add([data], alignments[id(data)])
            else:  # make a segment that lies inside the first segment, which holds the constants
                layout.alignment = lcm(layout.alignment, alignments[id(data)])
                layout.segments.append(DataSegment(layout.segments[0].offset + place, memoryview(data).nbytes))
        entries.append(NamedData(key, indices[id(data)]))
    return entries or None


def _place_of(data: Buffer, alignment: int, constants: dict[int, list[tuple[Buffer, int]]]) -> int | None:
    """Return the offset of the constant tensor with the same bytes and a sufficient alignment, or None."""
    size = memoryview(data).nbytes
    for tensor, offset in constants.get(align(size, CONSTANT_ALIGNMENT), ()) if size else ():
        if offset % alignment == 0 and memoryview(tensor).nbytes >= size and _starts_with(tensor, data):
            return offset
    return None


def _starts_with(tensor: Buffer, data: Buffer) -> bool:
    """Return True if a tensor begins with the bytes of `data`; a tensor read from a file may end in padding."""
    return all(a[: len(b)] == b for a, b in zip(parts(tensor), parts(data), strict=False))


def read_pte(buffer: Buffer) -> PteFile:
    """Read a `.pte` file from `buffer` (any object with the buffer protocol, such as an mmap).

    The data of the result consists of views into `buffer`, not copies.

    Raises:
        FormatError: The buffer is not a `.pte` file, or damaged.
    """
    view = memoryview(buffer).cast("B")
    if len(view) < 8 or bytes(view[4:8]) != PROGRAM_IDENTIFIER:
        raise FormatError("not a .pte file: no identifier 'ET12' at byte 4")
    program_size, base, data_end = _read_header(view)
    program = unpack(Program, view[:program_size], PROGRAM_IDENTIFIER)
    file = SegmentReader(view, program.segments, base, data_end)
    pte = PteFile(program)
    constants = program.constant_segment
    if constants is not None and len(constants.offsets) > 1:
        pte.constants = file.tensors(constants, "constants")
    elif program.constant_buffer:
        pte.constants = [constant.storage for constant in program.constant_buffer]
    if program.mutable_data_segments:
        if len(program.mutable_data_segments) > 1:
            raise FormatError(f"{len(program.mutable_data_segments)} mutable data segments; at most one is defined")
        pte.mutable = file.tensors(program.mutable_data_segments[0], "mutable")
    _read_delegates(pte, file)
    for entry in program.named_data or ():
        if entry.key in pte.named_data:
            raise FormatError(f"the named data '{entry.key}' occurs twice")
        data = file.segment(entry.segment_index, "named")
        pte.named_data[entry.key] = NamedBlob(data, file.alignment(entry.segment_index))
    pte.segments = file.used()
    program.segments, program.backend_delegate_data = [], []
    program.constant_buffer = program.constant_segment = program.mutable_data_segments = program.named_data = None
    return pte


def _read_header(view: memoryview) -> tuple[int, int, int]:
    """Return (program size, segment base, end of the segment data) as file offsets; (size, 0, 0) without segments."""
    if len(view) < 12 or bytes(view[8:12]) != _HEADER_MAGIC:
        return len(view), 0, 0
    if len(view) < 8 + _HEADER.size:
        raise FormatError(f"truncated: the file ends after {len(view)} bytes, inside its extended header")
    _, length, program_size, base, data_size = _HEADER.unpack_from(view, 8)
    if not 24 <= length <= len(view) - 8:
        raise FormatError(f"the extended header says that it has {length} bytes; it has 24 to {len(view) - 8}")
    if program_size > len(view):
        raise FormatError(
            f"truncated: the header announces a program of {program_size} bytes, the file has {len(view)}"
        )
    if program_size < 8 + length:
        raise FormatError(f"the header announces a program of {program_size} bytes, which ends inside the header")
    if base and base < program_size:
        raise FormatError(f"segments start at byte {base}, inside the program of {program_size} bytes")
    end = base + data_size if length >= 32 else max(base, len(view))
    if base and end > len(view):
        raise FormatError(f"truncated: the header announces {end} bytes, the file has {len(view)}")
    return program_size, base, end if base else 0


def _read_delegates(pte: PteFile, file: SegmentReader) -> None:
    indices: dict[tuple[DataLocation, int], int] = {}
    for plan in pte.program.execution_plan:
        for delegate in plan.delegates:
            what = f"method '{plan.name}', delegate '{delegate.id}'"
            source = delegate.processed
            if source is None:
                raise FormatError(f"{what} has no data")
            if (source.location, source.index) not in indices:
                indices[source.location, source.index] = len(pte.delegate_blobs)
                pte.delegate_blobs.append(_delegate_data(pte.program, file, source, what))
            index = indices[source.location, source.index]
            delegate.processed = BackendDelegateDataReference(index=index)


def _delegate_data(program: Program, file: SegmentReader, source: BackendDelegateDataReference, what: str) -> Buffer:
    if source.location == DataLocation.SEGMENT:
        return file.segment(source.index, "delegate")
    if source.index >= len(program.backend_delegate_data):
        raise FormatError(f"{what} refers to inline data {source.index} of {len(program.backend_delegate_data)}")
    return program.backend_delegate_data[source.index].data
