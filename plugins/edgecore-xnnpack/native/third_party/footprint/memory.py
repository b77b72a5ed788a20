"""Buffers without memory behind them, which record the ranges of the accesses and their alignment.

An address is an integer: the number of the buffer in the upper bits, and the offset plus MIDDLE in the lower SHIFT
bits. So the buffer of an address is known even if the offset is negative or past the buffer's end, by up to 2^39 bytes.
Any sum of an address and an offset is an address again, as in C.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from footprint.source import NotUnderstood

SHIFT = 40
MIDDLE = 1 << (SHIFT - 1)
MAX_ITERATIONS = 1_000_000  # of all loops in a call together


@dataclass
class Buffer:
    """A buffer of `size` bytes, and the ranges that were read and written, as offsets from its first byte."""

    name: str
    size: int
    read: list[int] = field(default_factory=lambda: [0, 0])  # lowest offset, and end of the highest access
    written: list[int] = field(default_factory=lambda: [0, 0])
    holds_zeros: bool = False  # addresses may depend on numbers in the buffer; all of these numbers are 0
    aligned: int = 0  # max size of the accesses that require an address aligned to their size
    unaligned: int = 0  # size of an access that requires an aligned address, and was made at an unaligned one


class Memory:
    """The buffers of a kernel call, and the pointers and indices that some of these buffers hold."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = [Buffer("no buffer", 0)]
        self.contents: dict[int, int] = {}  # pointers and indices by address
        self.tables: dict[int, bytes] = {}  # contents of local arrays, by number of the buffer
        self.iterations = 0

    def add(self, name: str, size: int, holds_zeros: bool = False) -> int:
        """Add a buffer and return its address."""
        self.buffers.append(Buffer(name, size, holds_zeros=holds_zeros))
        return ((len(self.buffers) - 1) << SHIFT) + MIDDLE

    def table(self, name: str, size: int, item: int, values: list[int]) -> int:
        """Add a local array and return its address; masks may be loaded from its `values`."""
        address = self.add(name, size * item)
        if values:
            self.tables[address >> SHIFT] = b"".join(
                (v & ((1 << 8 * item) - 1)).to_bytes(item, "little") for v in values
            )
        return address

    def read(self, address: int, size: int) -> bytes | None:
        number = address >> SHIFT
        if size > 0:
            if number <= 0 or number >= len(self.buffers):
                raise NotUnderstood("a read through an address of no buffer")
            low = address - (number << SHIFT) - MIDDLE
            extent = self.buffers[number].read
            extent[0] = min(extent[0], low)
            extent[1] = max(extent[1], low + size)
            if number in self.tables:
                return self.tables[number][max(low, 0) : low + size].ljust(size, b"\0")
        return None

    def write(self, address: int, size: int) -> int:
        number = address >> SHIFT
        if size > 0:
            if number <= 0 or number >= len(self.buffers):
                raise NotUnderstood("a write through an address of no buffer")
            low = address - (number << SHIFT) - MIDDLE
            extent = self.buffers[number].written
            extent[0] = min(extent[0], low)
            extent[1] = max(extent[1], low + size)
        return 0

    def align(self, address: int, size: int) -> int:
        """Record an access that faults unless the address is a multiple of `size`; each buffer's start is aligned."""
        buffer = self.buffers[address >> SHIFT]
        buffer.aligned = max(buffer.aligned, size)
        if address % size:
            buffer.unaligned = size
        return address

    def load(self, address: int, size: int) -> int:
        """Read a number that an address or a condition depends on."""
        data = self.read(address, size)
        if data is not None:
            return int.from_bytes(data, "little", signed=True)
        buffer = self.buffers[address >> SHIFT]
        if address not in self.contents and not buffer.holds_zeros:
            raise NotUnderstood(f"an access depends on numbers of {buffer.name}")
        return self.contents.get(address, 0)

    def pointer(self, address: int) -> int:
        self.read(address, 8)
        return self.contents.get(address, 0)

    def store(self, address: int, value: int) -> None:
        """Write a pointer, which can be loaded again."""
        self.write(address, 8)
        self.contents[address] = value

    def count_iteration(self) -> None:
        self.iterations += 1
        if self.iterations > MAX_ITERATIONS:
            raise NotUnderstood(f"a loop that does not end within {MAX_ITERATIONS} iterations")

    def tile(self, address: int, stride: int, config: dict[Any, int], number: int, write: bool) -> int:
        """Load or store tile `number` of AMX; `config` has the rows and the bytes of each row."""
        for row in range(config["rows", number]):
            (self.write if write else self.read)(address + row * stride, config["colsb", number])
        return 0


def lanes(mask: int | bytes | None, lane: int, count: int) -> int:
    """Return the bytes up to the end of the last lane that `mask` selects.

    A mask is an integer with a bit for each lane, or a vector whose lanes are selected by their sign bits (AVX).
    """
    if mask is None:
        raise NotUnderstood("a mask that was not loaded from a table")
    if isinstance(mask, int):
        return (mask & ((1 << count) - 1)).bit_length() * lane
    selected = [i for i in range(count) if mask[(i + 1) * lane - 1] & 0x80]
    return (selected[-1] + 1) * lane if selected else 0


def vector_of_words(*values: int) -> bytes:
    """Return a vector of 32-bit numbers; `values` begins with the highest lane, as _mm256_set_epi32 does."""
    return b"".join((value & 0xFFFFFFFF).to_bytes(4, "little") for value in reversed(values))


def vector_part(vector: bytes | None, number: int, parts: int) -> bytes | None:
    """Return part `number` of `parts` equal parts of a vector; None if the vector is unknown."""
    return None if vector is None else vector[number * len(vector) // parts :][: len(vector) // parts]
