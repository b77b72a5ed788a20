"""Buffers without memory behind them: which bytes of each were read and written, and at which alignment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from footprint.source import NotUnderstood

SHIFT = 40  # an address: the buffer's number, and from the middle of this many bits on the offset in it
MIDDLE = 1 << (SHIFT - 1)
TURNS = 1_000_000  # of all loops of one call


@dataclass
class Buffer:
    """`size` bytes that a caller passes; what was read and written of it, as offsets from its first byte."""

    name: str
    size: int
    read: list[int] = field(default_factory=lambda: [0, 0])  # lowest and highest offset
    written: list[int] = field(default_factory=lambda: [0, 0])
    holds_zeros: bool = False  # indices, all of them 0
    aligned: int = 0  # the most bytes of an access that traps unless its address is a multiple of them
    unaligned: int = 0  # the bytes of such an access whose address was none


class Memory:
    """Buffers of one call, and the pointers and indices that are stored in some of them."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = [Buffer("no buffer", 0)]
        self.contents: dict[int, int] = {}
        self.tables: dict[int, bytes] = {}
        self.turns = 0

    def add(self, name: str, size: int, holds_zeros: bool = False) -> int:
        """The address of a new buffer."""
        self.buffers.append(Buffer(name, size, holds_zeros=holds_zeros))
        return ((len(self.buffers) - 1) << SHIFT) + MIDDLE

    def table(self, name: str, size: int, item: int, values: list[int]) -> int:
        """The address of a local array, whose values matter to those who load masks from it."""
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
            seen = self.buffers[number].read
            seen[0] = min(seen[0], low)
            seen[1] = max(seen[1], low + size)
            if number in self.tables:
                return self.tables[number][max(low, 0) : low + size].ljust(size, b"\0")
        return None

    def write(self, address: int, size: int) -> int:
        number = address >> SHIFT
        if size > 0:
            if number <= 0 or number >= len(self.buffers):
                raise NotUnderstood("a write through an address of no buffer")
            low = address - (number << SHIFT) - MIDDLE
            seen = self.buffers[number].written
            seen[0] = min(seen[0], low)
            seen[1] = max(seen[1], low + size)
        return 0

    def align(self, address: int, size: int) -> int:
        """An instruction that traps unless the address is a multiple of `size`; buffers begin at any such multiple."""
        buffer = self.buffers[address >> SHIFT]
        buffer.aligned = max(buffer.aligned, size)
        if address % size:
            buffer.unaligned = size
        return address

    def load(self, address: int, size: int) -> int:
        """A number that an address or a condition depends on."""
        found = self.read(address, size)
        if found is not None:
            return int.from_bytes(found, "little", signed=True)
        buffer = self.buffers[address >> SHIFT]
        if address not in self.contents and not buffer.holds_zeros:
            raise NotUnderstood(f"what is done depends on numbers of {buffer.name}")
        return self.contents.get(address, 0)

    def pointer(self, address: int) -> int:
        self.read(address, 8)
        return self.contents.get(address, 0)

    def store(self, address: int, value: int) -> None:
        """Keep a pointer."""
        self.write(address, 8)
        self.contents[address] = value

    def turn(self) -> None:
        self.turns += 1
        if self.turns > TURNS:
            raise NotUnderstood("a loop without an end")

    def tile(self, address: int, stride: int, config: dict[Any, int], number: int, write: bool) -> int:
        """AMX: as many rows of as many bytes as the tile's configuration says."""
        for row in range(config["rows", number]):
            (self.write if write else self.read)(address + row * stride, config["colsb", number])
        return 0


def lanes(mask: int | bytes | None, lane: int, count: int) -> int:
    """Bytes up to the last lane that `mask` has on: a bit a lane, or a vector with the sign bit of each lane."""
    if mask is None:
        raise NotUnderstood("a mask that comes from no table")
    if isinstance(mask, int):
        return (mask & ((1 << count) - 1)).bit_length() * lane
    on = [i for i in range(count) if mask[(i + 1) * lane - 1] & 0x80]
    return (on[-1] + 1) * lane if on else 0


def words(*values: int) -> bytes:
    """A vector of 32-bit numbers, given from the last to the first."""
    return b"".join((value & 0xFFFFFFFF).to_bytes(4, "little") for value in reversed(values))


def half(vector: bytes | None, number: int, parts: int) -> bytes | None:
    """A part of a vector that was loaded from a table."""
    return None if vector is None else vector[number * len(vector) // parts :][: len(vector) // parts]
