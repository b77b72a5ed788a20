"""Segments of data behind a file's flatbuffer: where they go, and reading them. `.pte` and `.ptd` share this."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import lcm
from typing import BinaryIO

from edgecore.errors import FormatError

from .flat import Buffer
from .program import DataSegment, SubsegmentOffsets

SEGMENT_ALIGNMENT = 128
CONSTANT_ALIGNMENT = 16


@dataclass(frozen=True, slots=True)
class Segment:
    """Place in the file, in bytes from its start; `kind` is constants, mutable, delegate, named or unused.

    `data` are its bytes.
    """

    kind: str
    offset: int
    size: int
    data: Buffer = field(default=b"", repr=False, compare=False)


class Layout:
    """Segments in file order: `pieces` are (offset from the segment base, bytes)."""

    def __init__(self) -> None:
        self.segments: list[DataSegment] = []
        self.pieces: list[tuple[int, Buffer]] = []
        self.end = 0
        self.alignment = SEGMENT_ALIGNMENT

    def add(self, buffers: Sequence[Buffer], alignment: int) -> list[int]:
        """Appends one segment of 16-byte aligned buffers; returns their offsets within the segment."""
        alignment = lcm(SEGMENT_ALIGNMENT, alignment)
        self.alignment = lcm(self.alignment, alignment)
        start = self.end = align(self.end, alignment)
        offsets = []
        for buffer in buffers:
            view = memoryview(buffer)
            flat = view.cast("B") if view.nbytes else memoryview(b"")
            self.end = start + align(self.end - start, CONSTANT_ALIGNMENT)
            offsets.append(self.end - start)
            self.pieces.append((self.end, flat))
            self.end += len(flat)
        self.segments.append(DataSegment(start, self.end - start))
        return offsets

    def chunks(self, base: int, position: int) -> Iterator[Buffer]:
        """The bytes of all segments with what lies between them, from byte `position` of the file on."""
        for offset, piece in self.pieces:
            if base + offset > position:
                yield bytes(base + offset - position)
            yield piece
            position = base + offset + len(piece)


def align(value: int, alignment: int) -> int:
    """`value` rounded up to a multiple of `alignment`."""
    return -(-value // alignment) * alignment


def write_chunks(chunks: Iterator[Buffer], file: BinaryIO) -> int:
    """Write one after another; returns the number of bytes."""
    total = 0
    for chunk in chunks:
        file.write(chunk)
        total += len(chunk)
    return total


class SegmentReader:
    """The segments of a file whose data are its bytes `base` to `end`."""

    def __init__(self, view: memoryview, segments: Sequence[DataSegment], base: int, end: int) -> None:
        self.base = base
        self.segments = segments
        self.views: list[memoryview] = []
        self.kinds: dict[int, str] = {}
        for index, segment in enumerate(segments):
            start = base + segment.offset
            # ExecuTorch writes one empty segment without a header where there are no constants.
            if (base == 0 and segment.size) or start + segment.size > max(base, end):
                raise FormatError(
                    f"segment {index} (offset {segment.offset}, {segment.size} bytes) ends outside the segment data,"
                    f" which is bytes {base} to {end} of the file"
                )
            self.views.append(view[start : start + segment.size])

    def segment(self, index: int, kind: str) -> memoryview:
        """The bytes of one segment, used as `kind`."""
        if index >= len(self.views):
            raise FormatError(f"{kind} data in segment {index}, but the file has {len(self.views)} segments")
        self.kinds[index] = kind
        return self.views[index]

    def alignment(self, index: int) -> int:
        """The file does not record alignments: the power of two at which it places the segment, at most a page."""
        place = self.base | self.segments[index].offset
        return min(place & -place, 4096)

    def tensors(self, where: SubsegmentOffsets, kind: str) -> list[Buffer]:
        """The pieces of a segment, each up to the start of the next; entry 0 is the placeholder."""
        segment = self.segment(where.segment_index, kind)
        ordered = sorted(set(where.offsets))
        ends = dict(pairwise([*ordered, len(segment)]))
        if ordered and ordered[-1] > len(segment):
            raise FormatError(f"{kind}: offset {ordered[-1]} lies outside their segment of {len(segment)} bytes")
        return [b"", *(segment[offset : ends[offset]] for offset in where.offsets[1:])]

    def used(self) -> list[Segment]:
        """All segments, with what they were used as so far."""
        return [
            Segment(self.kinds.get(index, "unused"), self.base + segment.offset, segment.size, self.views[index])
            for index, segment in enumerate(self.segments)
        ]
