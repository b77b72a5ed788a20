"""Lay out and read the data segments that follow the flatbuffer of a `.pte` or `.ptd` file."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import lcm
from typing import BinaryIO

from edgecore.errors import FormatError

from .flat import Buffer
from .program import DataSegment, SubsegmentOffsets

SEGMENT_ALIGNMENT = 128
CONSTANT_ALIGNMENT = 16
_PART = 1 << 24


@dataclass(frozen=True, slots=True)
class Alignments:
    """Alignments in a `.pte` or `.ptd` file to be written, in bytes. All are powers of two.

    Attributes:
        segment: Alignment of each segment, at least 128; 4096 or more for segments that are mapped, locked or read by
            DMA separately.
        constant: Alignment of each constant tensor, and of each initial content of a mutable buffer, at least 16.

    Raises:
        FormatError: A number is too small or not a power of two.
    """

    segment: int = SEGMENT_ALIGNMENT
    constant: int = CONSTANT_ALIGNMENT

    def __post_init__(self) -> None:
        bounds = ("segment", self.segment, SEGMENT_ALIGNMENT), ("constant", self.constant, CONSTANT_ALIGNMENT)
        for name, value, minimum in bounds:
            if value < minimum or value & (value - 1):
                raise FormatError(f"the {name} alignment must be a power of two of at least {minimum}; got {value}")


DEFAULT_ALIGNMENTS = Alignments()


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment of a file that was read.

    Attributes:
        kind: The use of the segment: constants, mutable, delegate, named or unused.
        offset: Bytes from the start of the file.
        size: The size of the segment in bytes.
        data: The content of the segment.
    """

    kind: str
    offset: int
    size: int
    data: Buffer = field(default=b"", repr=False, compare=False)


def without_shared(segments: Iterable[Segment]) -> list[Segment]:
    """Drop segments of named data that lie inside the constants' segment, so that totals count each byte once."""
    every = list(segments)
    constants = [(segment.offset, segment.offset + segment.size) for segment in every if segment.kind == "constants"]

    def is_shared(segment: Segment) -> bool:
        end = segment.offset + segment.size
        return segment.kind == "named" and any(first <= segment.offset and end <= last for first, last in constants)

    return [segment for segment in every if not is_shared(segment)]


class Layout:
    """Collects the segments of a file to be written.

    `pieces` are (offset, bytes), with offsets from the start of the first segment.
    """

    def __init__(self, alignments: Alignments) -> None:
        self.segments: list[DataSegment] = []
        self.pieces: list[tuple[int, Buffer]] = []
        self.end = 0
        self.alignments = alignments
        self.alignment = alignments.segment

    def add_tensors(self, buffers: Sequence[Buffer]) -> list[int]:
        """Append a segment of tensors; return their offsets, which are multiples of `alignments.constant`."""
        return self.add(buffers, self.alignments.constant, self.alignments.constant)

    def add(self, buffers: Sequence[Buffer], alignment: int, step: int = CONSTANT_ALIGNMENT) -> list[int]:
        """Append a segment that holds `buffers` at multiples of `step`; return the buffers' offsets in the segment."""
        alignment = lcm(self.alignments.segment, alignment)
        self.alignment = lcm(self.alignment, alignment)
        start = self.end = align(self.end, alignment)
        offsets = []
        for buffer in buffers:
            view = memoryview(buffer)
            flat = view.cast("B") if view.nbytes else memoryview(b"")
            self.end = start + align(self.end - start, step)
            offsets.append(self.end - start)
            self.pieces.append((self.end, flat))
            self.end += len(flat)
        self.segments.append(DataSegment(start, self.end - start))
        return offsets

    def chunks(self, base: int, position: int) -> Iterator[Buffer]:
        """Yield the bytes of all segments and the padding between them.

        `base` is the file offset of the first segment, and `position` the offset of the first byte to yield.
        """
        for offset, piece in self.pieces:
            if base + offset > position:
                yield bytes(base + offset - position)
            yield from parts(piece)
            position = base + offset + len(piece)


class MappedFile(mmap.mmap):
    """A memory mapping of a file that no longer changes, so that the system may drop pages and read them again."""


def align(value: int, alignment: int) -> int:
    """Return `value` rounded up to a multiple of `alignment`."""
    return -(-value // alignment) * alignment


def parts(buffer: Buffer) -> Iterator[memoryview]:
    """Yield a buffer in pieces of a few megabytes; let the system drop the pages of each piece of a `MappedFile`."""
    view = memoryview(buffer)
    view = view.cast("B") if view.nbytes else memoryview(b"")
    for start in range(0, len(view), _PART):
        yield view[start : start + _PART]
        if isinstance(view.obj, MappedFile) and hasattr(view.obj, "madvise"):
            view.obj.madvise(mmap.MADV_DONTNEED)  # the next use of these pages reads the file again


def write_chunks(chunks: Iterator[Buffer], file: BinaryIO) -> int:
    """Write chunks one after another, and return the number of bytes."""
    total = 0
    for chunk in chunks:
        file.write(chunk)
        total += len(chunk)
    return total


class SegmentReader:
    """Reads the segments in the bytes `base` to `end` of a file, and records the use of each segment."""

    def __init__(self, view: memoryview, segments: Sequence[DataSegment], base: int, end: int) -> None:
        self.base = base
        self.segments = segments
        self.views: list[memoryview] = []
        self.kinds: dict[int, str] = {}
        for index, segment in enumerate(segments):
            start = base + segment.offset
            # For a program without constants, executorch writes one segment of size 0, and no header with the start of
            # the segments. Then `base` is 0, and only segments of size 0 are valid.
            if (base == 0 and segment.size) or start + segment.size > max(base, end):
                raise FormatError(
                    f"segment {index} (offset {segment.offset}, {segment.size} bytes) ends outside the segment data,"
                    f" which is bytes {base} to {end} of the file"
                )
            self.views.append(view[start : start + segment.size])

    def segment(self, index: int, kind: str) -> memoryview:
        """Return the bytes of a segment, and record that it is used as `kind`."""
        if index >= len(self.views):
            raise FormatError(f"{kind} data in segment {index}, but the file has {len(self.views)} segments")
        self.kinds[index] = kind
        return self.views[index]

    def alignment(self, index: int) -> int:
        """Return the alignment of a segment, at most 4096.

        A file does not record alignments, so this is the largest power of two that divides both the base and the
        offset of the segment.
        """
        bits = self.base | self.segments[index].offset
        return min(bits & -bits, 4096)

    def tensors(self, where: SubsegmentOffsets, kind: str) -> list[Buffer]:
        """Split a segment of tensors at the offsets in `where`; entry 0 of the result is for tensors without data."""
        segment = self.segment(where.segment_index, kind)
        ordered = sorted(set(where.offsets))
        ends = dict(pairwise([*ordered, len(segment)]))
        if ordered and ordered[-1] > len(segment):
            raise FormatError(f"{kind}: offset {ordered[-1]} lies outside the segment of {len(segment)} bytes")
        return [b"", *(segment[offset : ends[offset]] for offset in where.offsets[1:])]

    def used(self) -> list[Segment]:
        """Return all segments with their uses: those that the method `segment` has recorded so far, else `unused`."""
        return [
            Segment(self.kinds.get(index, "unused"), self.base + segment.offset, segment.size, self.views[index])
            for index, segment in enumerate(self.segments)
        ]
