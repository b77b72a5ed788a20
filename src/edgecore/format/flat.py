"""Read and write flatbuffers. A table is a dataclass whose fields carry their field id and wire type.

    @dataclass(slots=True)
    class Tensor:
        sizes: list[int] = vector(2, "i32")
        scalar_type: int = scalar(0, "i8")

Conventions: a scalar equal to its schema default is not written. A string or vector is always written; in an `optional`
field None means absent. A table or union that is None is absent. Wire format: https://flatbuffers.dev/internals.

Why this module does not use the Python code that `flatc` generates:

- Reading: generated readers check no bounds, so a damaged file gives wrong values or an error that names no field.
  `unpack` checks every offset, length and alignment, and raises `FormatError` with the field. It also does not import
  the package `flatbuffers`, which would import numpy and slow down the start of tools that only read files.
- Writing: `pack` uses `flatbuffers.Builder` for strings and vectors, but writes each table as one block of bytes into
  the builder's buffer, through its attributes `Bytes`, `head`, `minalign` and `vtables`. The builder's own methods need
  a Python call for each field: for the program of densenet121 (363 instructions, 88 KB) 97 ms instead of 37 ms, and
  for mobilenet_v2 (99 instructions) 22 ms instead of 9 ms (2026-11-22, x86-64).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from functools import cache
from typing import Any, TypeVar

from edgecore.errors import FormatError

T = TypeVar("T")
Buffer = bytes | bytearray | memoryview

_KINDS = ("bool", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f32", "f64")
_CODES = dict(zip(_KINDS, "?bBhHiIqQfd", strict=True))
_NEVER_NONE = frozenset({"string", "vector", "data", "tables", "strings"})
_SIZES = {kind: struct.calcsize("<" + code) for kind, code in _CODES.items()}


@dataclass(frozen=True, slots=True)
class Wire:
    """The wire type of one field.

    `kind` is the name of a scalar type, or of the function that declares the field: string, vector (of scalars), data
    (bytes), table, tables, strings, union. `element` is the scalar type of a vector, `table` the class of a table;
    `members` and `ids` map union types to classes and back.
    """

    id: int
    kind: str
    default: Any = None
    optional: bool = False
    element: str = ""
    align: int = 1
    table: type | None = None
    enum: type[IntEnum] | None = None
    members: Mapping[int, type] | None = None
    ids: Mapping[type, int] | None = None


def _field(wire: Wire, factory: Callable[[], Any] | None = None) -> Any:
    if factory is not None and not wire.optional:
        return field(default_factory=factory, metadata={"flat": wire})
    return field(default=wire.default, metadata={"flat": wire})


def scalar(id: int, kind: str, default: float | bool | None = None, enum: type[IntEnum] | None = None) -> Any:
    """Declare a scalar field of `kind` bool, i8..i64, u8..u64, f32 or f64; `default` is the schema's default."""
    if default is None:
        default = False if kind == "bool" else 0.0 if kind[0] == "f" else 0
    return _field(Wire(id, kind, enum(int(default)) if enum else default, enum=enum))


def string(id: int, optional: bool = False) -> Any:
    """Declare a field that holds a UTF-8 string; equal strings are stored once."""
    return _field(Wire(id, "string", None if optional else "", optional))


def vector(id: int, kind: str, optional: bool = False) -> Any:
    """Declare a field that holds a list of scalars of `kind`."""
    return _field(Wire(id, "vector", optional=optional, element=kind), list)


def data(id: int, align: int = 1, optional: bool = False) -> Any:
    """Declare a field of bytes that start at a multiple of `align`; `unpack` returns a view of them, not a copy."""
    return _field(Wire(id, "data", None if optional else b"", optional, align=align))


def table(id: int, cls: type) -> Any:
    """Declare a field that holds a table of type `cls`, or None."""
    return _field(Wire(id, "table", table=cls))


def tables(id: int, cls: type, optional: bool = False) -> Any:
    """Declare a field that holds a list of tables of type `cls`."""
    return _field(Wire(id, "tables", optional=optional, table=cls), list)


def strings(id: int, optional: bool = False) -> Any:
    """Declare a field that holds a list of strings."""
    return _field(Wire(id, "strings", optional=optional), list)


def union(id: int, members: Mapping[int, type]) -> Any:
    """Declare a field that holds one of the tables in `members` (union type -> class), or None.

    The union type has the field id `id`, the table `id + 1`.

    The class of a value determines its union type, so each type needs a separate class, such as a subclass.
    """
    ids = {cls: number for number, cls in members.items()}
    if len(ids) != len(members):
        raise TypeError("two union types have the same class; make a subclass for one of them")
    return _field(Wire(id, "union", members=members, ids=ids))


@dataclass(frozen=True, slots=True)
class _Plan:
    """The fields of a table, prepared for `pack` and `unpack`.

    A slot is the position of a field in the table's vtable, and equals its field id. The rank of a field is its index
    in `slots`, which is sorted by descending size: `pack` fills a table from its end, the largest field first.
    """

    wires: tuple[tuple[str, Wire], ...]
    # (slot, struct code, bytes) of each field, largest first; a slot is a field id
    slots: tuple[tuple[int, str, int], ...]
    ranks: Mapping[int, int]
    scalars: tuple[tuple[str, int, Any], ...]  # (attribute, rank, default) of each scalar field
    # (attribute, index in `slots`, wire type) of fields that are not scalars
    children: tuple[tuple[str, int, Wire], ...]


def _make_plan(cls: type) -> _Plan:
    wires = tuple((f.name, f.metadata["flat"]) for f in fields(cls) if "flat" in f.metadata)
    slots = [(wire.id, _CODES.get(wire.kind, "I")) for _, wire in wires if wire.kind != "union"]
    for _, wire in wires:
        if wire.kind == "union":
            slots += [(wire.id, "B"), (wire.id + 1, "I")]
    ordered = sorted(((slot, code, struct.calcsize("<" + code)) for slot, code in slots), key=lambda s: -s[2])
    ranks = {slot: rank for rank, (slot, _, _) in enumerate(ordered)}
    if len(ranks) != len(ordered):
        raise TypeError(f"{cls.__name__} declares a field id twice")
    scalars = tuple((name, ranks[wire.id], wire.default) for name, wire in wires if wire.kind in _CODES)
    children = tuple((name, ranks[wire.id], wire) for name, wire in wires if wire.kind not in _CODES)
    return _Plan(wires, tuple(ordered), ranks, scalars, children)


_plan: Callable[[type], _Plan] = cache(_make_plan)


@dataclass(frozen=True, slots=True)
class _Shape:
    """The memory layout of a table in which a certain set of fields is present.

    The fields are stored by ascending size: the field of rank 0, the largest, ends at the end of the table. That end is
    aligned to the largest size, so every field is aligned without padding between the fields.
    """

    block: struct.Struct
    align: int
    ends: tuple[int, ...]  # bytes from the start of a field to the end of the table, in rank order
    vtable: bytes


def _make_shape(cls: type, present: tuple[int, ...]) -> _Shape:
    slots = [_plan(cls).slots[rank] for rank in present]
    ends, used = [], 0
    for _, _, size in slots:
        used += size
        ends.append(used)
    padding = -used % 4
    total = 4 + padding + used  # a table starts with the offset of its vtable, 4 bytes
    offsets = [0] * (max((slot for slot, _, _ in slots), default=-1) + 1)
    for (slot, _, _), end in zip(slots, ends, strict=True):
        offsets[slot] = total - end
    vtable = struct.pack(f"<{len(offsets) + 2}H", 4 + 2 * len(offsets), total, *offsets)
    block = struct.Struct(f"<i{padding}x" + "".join(code for _, code, _ in reversed(slots)))
    return _Shape(block, max([4, *(size for _, _, size in slots)]), tuple(ends), vtable)


_shape: Callable[[type, tuple[int, ...]], _Shape] = cache(_make_shape)


def pack(root: Any, identifier: bytes = b"", size_prefix: bool = False) -> bytearray:
    """Write `root`, an instance of a table's dataclass, as a flatbuffer.

    Args:
        root: The root table.
        identifier: The file identifier, 4 bytes; empty for none.
        size_prefix: True to write the size of the flatbuffer, 4 bytes, before it.

    Raises:
        FormatError: A value does not fit its field.
    """
    import flatbuffers  # type: ignore[import-untyped]  # not at the top: it imports numpy, which readers do not need

    builder = flatbuffers.Builder(4096)
    finish = builder.FinishSizePrefixed if size_prefix else builder.Finish
    finish(_pack_table(builder, root), file_identifier=identifier or None)
    return builder.Output()  # type: ignore[no-any-return]


def _pack_table(builder: Any, value: Any) -> int:
    """Write a table as one block of bytes, and return its offset, counted from the end of the buffer.

    The builder fills its buffer from the end to the start: `head` is the first byte in use, and offsets count from the
    end, so that they stay valid when the buffer grows. The vtable, which holds the offset of each field in the table,
    lies in front of the table; equal vtables are stored once.
    """
    cls = type(value)
    plan = _plan(cls)
    entries: list[tuple[int, Any, bool]] = []  # (rank of the field, see `_Plan`; value; True for an offset)
    for attribute, rank, default in plan.scalars:
        item = getattr(value, attribute)
        if item != default:
            entries.append((rank, item, False))
    for attribute, rank, wire in plan.children:
        item = getattr(value, attribute)
        if item is None:
            if wire.kind in _NEVER_NONE and not wire.optional:
                raise FormatError(f"{cls.__name__}.{attribute} is None, but the field is not optional")
        elif wire.ids is not None:
            number = wire.ids.get(type(item))
            if number is None:
                raise FormatError(f"{cls.__name__}.{attribute} cannot hold a {type(item).__name__}")
            entries.append((rank, number, False))
            entries.append((plan.ranks[wire.id + 1], _pack_table(builder, item), True))
        else:
            try:
                entries.append((rank, _pack_child(builder, wire, item), True))
            except (struct.error, TypeError, UnicodeEncodeError) as error:
                raise FormatError(f"{cls.__name__}.{attribute}: {error}") from error
    entries.sort()
    shape = _shape(cls, tuple([rank for rank, _, _ in entries]))
    room = shape.block.size + len(shape.vtable) + 8  # 8: up to 7 bytes of padding
    if builder.head < room:
        builder.Prep(1, room)  # grows the buffer
    end: int = len(builder.Bytes) - builder.head
    end += -end % shape.align  # padding, which is zero already: a new buffer is filled with zeros
    builder.head = len(builder.Bytes) - end
    builder.minalign = max(builder.minalign, shape.align)
    start = end + shape.block.size
    # A field with an offset stores the distance from itself to its target. The field starts `end + distance` bytes
    # before the end of the buffer, because `distance` is its distance from the end of the table. The target starts
    # `item` bytes before the end of the buffer.
    numbers = [
        end + distance - item if is_offset else item
        for (_, item, is_offset), distance in zip(entries, shape.ends, strict=True)
    ]
    vtable: int = builder.vtables.setdefault(shape.vtable, start + len(shape.vtable))
    numbers.append(vtable - start)
    numbers.reverse()
    try:
        block = shape.block.pack(*numbers)
    except struct.error as error:
        raise FormatError(f"{cls.__name__}: a value does not fit its field ({error}): {value!r}") from error
    _place(builder, block)
    if vtable == start + len(shape.vtable):
        _place(builder, shape.vtable)
    return start


def _place(builder: Any, block: Buffer) -> None:
    """Write bytes in front of the first used byte of the builder's buffer."""
    end = builder.head
    builder.head = end - len(block)
    builder.Bytes[builder.head : end] = block


def _pack_child(builder: Any, wire: Wire, value: Any) -> int:
    """Write a string, vector or table, and return its offset from the end of the buffer."""
    kind = wire.kind
    if kind == "string":
        return int(builder.CreateSharedString(value))
    if kind == "table":
        return _pack_table(builder, value)
    if kind == "vector":
        size = _SIZES[wire.element]
        block: Buffer = struct.pack(f"<{len(value)}{_CODES[wire.element]}", *value)
        builder.StartVector(size, len(value), size)
    elif kind == "data":
        block = memoryview(value).cast("B")
        builder.StartVector(1, len(block), wire.align)
    else:
        create = builder.CreateSharedString if kind == "strings" else lambda item: _pack_table(builder, item)
        children = [create(item) for item in value]
        builder.StartVector(4, len(children), 4)
        end = builder.Offset() + 4 * len(children)
        block = struct.pack(f"<{len(children)}I", *(end - 4 * i - child for i, child in enumerate(children)))
    _place(builder, block)
    return int(builder.EndVector())


def unpack(cls: type[T], buffer: Buffer, identifier: bytes | Sequence[bytes] = ()) -> T:
    """Read a flatbuffer.

    Args:
        cls: The dataclass of the root table.
        buffer: The bytes; fields made by `data` become views into them.
        identifier: The accepted file identifiers (bytes 4 to 7); empty to accept any.

    Raises:
        FormatError: The buffer is malformed or has another identifier.
    """
    view = memoryview(buffer).cast("B")
    accepted = (identifier,) if isinstance(identifier, bytes) else tuple(identifier)
    if len(view) < 8:
        raise FormatError(f"{cls.__name__}: a flatbuffer has at least 8 bytes, but this buffer has {len(view)}")
    if accepted and bytes(view[4:8]) not in accepted:
        expected = " or ".join(repr(i.decode("latin-1")) for i in accepted)
        raise FormatError(f"{cls.__name__}: identifier {bytes(view[4:8])!r} at byte 4 is not {expected}")
    reader = Reader(view)
    return reader.table(cls, reader.follow(0, cls.__name__), cls.__name__)


class Reader:
    """Reads the tables of one buffer.

    `budget` limits the number of bytes read to 8 times the size of the buffer. Several offsets may point to the same
    table, so a small damaged file could otherwise cause exponential work.
    """

    def __init__(self, view: memoryview) -> None:
        self.view = view
        self.size = len(view)
        self.budget = 8 * len(view)
        self.strings: dict[int, str] = {}

    def check(self, position: int, length: int, align: int, what: str) -> None:
        """Check that `length` bytes at `position` lie in the buffer and are aligned; errors name the field `what`."""
        if position < 0 or position + length > self.size:
            raise FormatError(
                f"{what}: bytes {position} to {position + length} lie outside the buffer of {self.size} bytes"
            )
        if position % align:
            raise FormatError(f"{what}: byte {position} is not a multiple of {align}")

    def spend(self, amount: int, what: str) -> None:
        self.budget -= amount
        if self.budget < 0:
            raise FormatError(
                f"{what}: offsets point to the same data so often that reading would take more than 8 times the "
                "buffer's size; the file is damaged"
            )

    def number(self, code: str, size: int, position: int, what: str) -> Any:
        self.check(position, size, size, what)
        return struct.unpack_from("<" + code, self.view, position)[0]

    def follow(self, position: int, what: str) -> int:
        """Return the target of the relative offset stored at `position`."""
        return position + int(self.number("I", 4, position, what))

    def vector(self, position: int, size: int, align: int, what: str, view: bool = False) -> tuple[int, int]:
        """Return (position of the first element, number of elements) of the vector whose offset is at `position`.

        `view` is True if the caller makes a view of the elements and reads none of them: the elements then do not count
        for `budget`.
        """
        start = self.follow(position, what)
        count = int(self.number("I", 4, start, what))
        self.check(start + 4, count * size, align if count else 1, what)
        self.spend(4 if view else 4 + count * size, what)
        return start + 4, count

    def text(self, position: int, what: str) -> str:
        start = self.follow(position, what)
        text = self.strings.get(start)
        if text is None:
            first, count = self.vector(position, 1, 1, what)
            try:
                text = str(self.view[first : first + count], "utf-8")
            except UnicodeDecodeError as error:
                raise FormatError(f"{what}: the string at byte {first} is not UTF-8") from error
            self.strings[start] = text
        return text

    def table(self, cls: type[T], position: int, what: str) -> T:
        vtable = position - int(self.number("i", 4, position, what))
        length = int(self.number("H", 2, vtable, what))
        self.check(vtable, max(length, 4), 2, what)
        slots = struct.unpack_from(f"<{length // 2}H", self.view, vtable)
        if length < 4 or length % 2 or slots[1] < 4:
            raise FormatError(f"{what}: the vtable at byte {vtable} is malformed")
        self.check(position, slots[1], 4, what)
        self.spend(4 + slots[1], what)
        slots, extent = slots[2:], slots[1]
        values: dict[str, Any] = {}
        for attribute, wire in _plan(cls).wires:
            offset = slots[wire.id] if wire.id < len(slots) else 0
            if offset == 0:
                continue
            where = f"{cls.__name__}.{attribute}"
            kind = wire.kind
            start = position + offset
            size = 1 if kind == "union" else _SIZES.get(kind, 4)
            if offset + size > extent:
                raise FormatError(f"{where}: the field lies outside its table at byte {position}")
            if kind in _CODES:
                if start % size:
                    raise FormatError(f"{where}: byte {start} is not a multiple of {size}")
                value = struct.unpack_from("<" + _CODES[kind], self.view, start)[0]
                values[attribute] = self.member(wire.enum, value, where) if wire.enum else value
            elif kind == "union":
                number = self.view[start]
                offset = slots[wire.id + 1] if wire.id + 1 < len(slots) else 0
                if number == 0:
                    continue
                if wire.members is None or number not in wire.members:
                    raise FormatError(f"{where}: union type {number} at byte {position} is unknown")
                if offset == 0 or offset + 4 > extent:
                    raise FormatError(f"{where}: union type {number} at byte {position} has no value")
                values[attribute] = self.table(wire.members[number], self.follow(position + offset, where), where)
            else:
                values[attribute] = self.child(wire, start, where)
        return cls(**values)

    def member(self, enum: type[IntEnum], value: int, what: str) -> IntEnum:
        try:
            return enum(value)
        except ValueError as error:
            raise FormatError(f"{what}: {value} is not a {enum.__name__}") from error

    def child(self, wire: Wire, position: int, what: str) -> Any:
        kind = wire.kind
        if kind == "string":
            return self.text(position, what)
        if kind == "table":
            assert wire.table is not None
            return self.table(wire.table, self.follow(position, what), what)
        if kind == "data":
            first, count = self.vector(position, 1, wire.align, what, view=True)
            return self.view[first : first + count]
        if kind == "vector":
            size = _SIZES[wire.element]
            first, count = self.vector(position, size, size, what)
            if wire.element == "bool":
                return [bool(byte) for byte in self.view[first : first + count]]
            return list(struct.unpack_from(f"<{count}{_CODES[wire.element]}", self.view, first))
        first, count = self.vector(position, 4, 4, what)
        elements = range(first, first + 4 * count, 4)
        if kind == "strings":
            return [self.text(element, what) for element in elements]
        assert wire.table is not None
        return [self.table(wire.table, self.follow(element, what), what) for element in elements]
