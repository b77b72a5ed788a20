"""Memory of the traces that firmware makes (`edgecore/trace_buffer.h`), for tests of what reads it."""

from __future__ import annotations

import struct
from collections.abc import Sequence

EXECUTE, KERNEL, DELEGATE, PREPARE, COPY, BACKEND = range(6)
NAMED, OPEN = 0x100, 0xFFFFFFFF


def name_hash(name: str) -> int:
    """FNV-1a of 32 bits."""
    value = 2166136261
    for byte in name.encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value


def header(record_bytes: int, recorded: int, dropped: int = 0, *, ticks_per_second: int = 1_000_000) -> bytes:
    return struct.pack("<4sHHQQQ", b"ECTR", 2, record_bytes, ticks_per_second, recorded, dropped)


def ring(records: Sequence[tuple[int, ...]], recorded: int, dropped: int = 0) -> bytes:
    """Memory of a TraceBuffer: begin, length, instruction, kind, id."""
    return header(16, recorded, dropped) + b"".join(struct.pack("<IIHHI", *record) for record in records)


def total(instruction: int, kind: int, count: int, low: int, high: int, ticks: int, squares: int, method: str) -> bytes:
    whole = name_hash(method) if method else 0
    return struct.pack("<HHIIIIIQQ", instruction, kind, 0, count, low, high, whole, ticks, squares)
