"""Declarative flatbuffers: a table is a dataclass whose fields carry their field id and wire type.

    @dataclass(slots=True)
    class Tensor:
        sizes: list[int] = vector(2, "i32")
        scalar_type: int = scalar(0, "i8")

`pack` writes through `flatbuffers.Builder`; `unpack` checks every offset, length and alignment, and reports malformed
input as a `FormatError`. Conventions: a scalar equal to its schema default is not written; a string or vector is always
written unless its field is `optional`, where None means absent; a table or union that is None is absent.
Wire format: https://flatbuffers.dev/internals.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from functools import lru_cache
from typing import Any, TypeVar, Union

import flatbuffers  # type: ignore[import-untyped]

T = TypeVar("T")
Buffer = Union[bytes, bytearray, memoryview]

_CODES = {
    **{"bool": "?", "i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I"},
    **{"i64": "q", "u64": "Q", "f32": "f", "f64": "d"},
}
_SIZES = {kind: struct.calcsize("<" + code) for kind, code in _CODES.items()}


class FormatError(ValueError):
    """A file or buffer that does not follow its format; the message is one sentence that says what and where."""


@dataclass(frozen=True, slots=True)
class Wire:
    """How one field is stored: `kind` is a scalar name, or string, vector, data, table, tables, strings, union."""

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


def scalar(id: int, kind: str, default: int | float | bool | None = None, enum: type[IntEnum] | None = None) -> Any:
    """A number or bool of `kind` bool, i8..i64, u8..u64, f32, f64; `default` is the schema's default."""
    if default is None:
        default = False if kind == "bool" else 0.0 if kind[0] == "f" else 0
    return _field(Wire(id, kind, enum(default) if enum else default, enum=enum))


def string(id: int, optional: bool = False) -> Any:
    """A UTF-8 string; equal strings are stored once."""
    return _field(Wire(id, "string", None if optional else "", optional))


def vector(id: int, kind: str, optional: bool = False) -> Any:
    """A list of scalars of `kind`."""
    return _field(Wire(id, "vector", optional=optional, element=kind), list)


def data(id: int, align: int = 1, optional: bool = False) -> Any:
    """A byte vector whose first byte is at a multiple of `align`; read as a memoryview into the buffer."""
    return _field(Wire(id, "data", None if optional else b"", optional, align=align))


def table(id: int, cls: type) -> Any:
    """A table of type `cls`, or None."""
    return _field(Wire(id, "table", table=cls))


def tables(id: int, cls: type, optional: bool = False) -> Any:
    """A list of tables of type `cls`."""
    return _field(Wire(id, "tables", optional=optional, table=cls), list)


def strings(id: int, optional: bool = False) -> Any:
    """A list of strings."""
    return _field(Wire(id, "strings", optional=optional), list)


def union(id: int, members: Mapping[int, type]) -> Any:
    """One of the tables in `members` (union type -> class), or None; takes field ids `id` and `id + 1`.

    Every type has its own class, so that the class tells the type: make subclasses where types share a table.
    """
    ids = {cls: number for number, cls in members.items()}
    if len(ids) != len(members):
        raise TypeError("a class may stand for one union type only")
    return _field(Wire(id, "union", members=members, ids=ids))


@lru_cache(maxsize=None)
def _plan(cls: type) -> tuple[str, int, tuple[tuple[str, Wire], ...]]:
    """(table name, number of vtable slots, fields in order of declaration)."""
    wires = tuple((f.name, f.metadata["flat"]) for f in fields(cls) if "flat" in f.metadata)
    taken = [slot for _, w in wires for slot in ((w.id, w.id + 1) if w.kind == "union" else (w.id,))]
    if len(set(taken)) != len(taken):
        raise TypeError(f"{cls.__name__} declares a field id twice")
    return cls.__name__, max(taken, default=-1) + 1, wires


def pack(root: Any, identifier: bytes = b"") -> bytearray:
    """The flatbuffer of `root` (a dataclass instance); FormatError if a value does not fit its field."""
    builder = flatbuffers.Builder(4096)
    builder.Finish(_pack_table(builder, root), file_identifier=identifier or None)
    return builder.Output()  # type: ignore[no-any-return]


def _pack_table(builder: Any, value: Any) -> int:
    name, slots, wires = _plan(type(value))
    inline: list[tuple[int, str, int, Any, bool]] = []  # size, struct code, slot, value, is it an offset
    for attribute, wire in wires:
        item = getattr(value, attribute)
        kind = wire.kind
        code = _CODES.get(kind)
        if code is not None:
            if item != wire.default:
                inline.append((_SIZES[kind], code, wire.id, item, False))
        elif item is None:
            if kind in ("string", "vector", "data", "tables", "strings") and not wire.optional:
                raise FormatError(f"{name}.{attribute} is None but not optional")
        elif kind == "union":
            number = wire.ids.get(type(item)) if wire.ids is not None else None
            if number is None:
                raise FormatError(f"{name}.{attribute} cannot hold a {type(item).__name__}")
            inline.append((1, "B", wire.id, number, False))
            inline.append((4, "I", wire.id + 1, _pack_table(builder, item), True))
        else:
            try:
                inline.append((4, "I", wire.id, _pack_child(builder, wire, item), True))
            except (struct.error, TypeError, UnicodeEncodeError) as error:
                raise FormatError(f"{name}.{attribute}: {error}") from error
    inline.sort(key=lambda entry: -entry[0])  # largest first: no padding between fields
    # One block for all fields instead of a Builder call for each: several times faster.
    builder.Prep(1, sum(entry[0] for entry in inline) + 16)
    if inline:
        builder.Prep(inline[0][0], 0)
    builder.StartObject(slots)
    offset = builder.Offset()
    codes, numbers = [], []
    for size, code, slot, item, is_offset in inline:
        offset += size
        builder.current_vtable[slot] = offset
        codes.append(code)
        numbers.append(offset - item if is_offset else item)
    try:
        block = struct.pack("<" + "".join(reversed(codes)), *reversed(numbers))
    except struct.error as error:
        values = {attribute: getattr(value, attribute) for attribute, wire in wires if wire.kind in _CODES}
        raise FormatError(f"{name} has a value that does not fit its field ({error}): {values}") from error
    _place(builder, block)
    return int(builder.EndObject())


def _place(builder: Any, block: Buffer) -> None:
    end = builder.head
    builder.head = end - len(block)
    builder.Bytes[builder.head : end] = block


def _pack_child(builder: Any, wire: Wire, value: Any) -> int:
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
    """The `cls` at the root of `buffer`; FormatError if it is malformed or has none of the identifiers."""
    view = memoryview(buffer).cast("B")
    accepted = (identifier,) if isinstance(identifier, bytes) else tuple(identifier)
    if len(view) < 8:
        raise FormatError(f"{cls.__name__}: a flatbuffer has at least 8 bytes, this one {len(view)}")
    if accepted and bytes(view[4:8]) not in accepted:
        expected = " or ".join(repr(i.decode("latin-1")) for i in accepted)
        raise FormatError(f"{cls.__name__}: identifier {bytes(view[4:8])!r} at byte 4 is not {expected}")
    reader = _Reader(view)
    return reader.table(cls, reader.follow(0, cls.__name__), cls.__name__)


class _Reader:
    """Reads tables of one buffer. `budget` bounds the work, because offsets may share or overlap their targets."""

    def __init__(self, view: memoryview) -> None:
        self.view = view
        self.size = len(view)
        self.budget = 8 * len(view)
        self.strings: dict[int, str] = {}

    def check(self, position: int, length: int, align: int, what: str) -> None:
        if position < 0 or position + length > self.size:
            raise FormatError(
                f"{what}: bytes {position} to {position + length} lie outside the buffer of {self.size} bytes"
            )
        if position % align:
            raise FormatError(f"{what}: byte {position} is not a multiple of {align}")

    def spend(self, amount: int, what: str) -> None:
        self.budget -= amount
        if self.budget < 0:
            raise FormatError(f"{what}: the tables share so much data that they exceed the buffer's size many times")

    def number(self, code: str, size: int, position: int, what: str) -> Any:
        self.check(position, size, size, what)
        return struct.unpack_from("<" + code, self.view, position)[0]

    def follow(self, position: int, what: str) -> int:
        return position + int(self.number("I", 4, position, what))

    def vector(self, position: int, size: int, align: int, what: str, view: bool = False) -> tuple[int, int]:
        """(position of the first element, number of elements)."""
        start = self.follow(position, what)
        count = int(self.number("I", 4, start, what))
        self.check(start + 4, count * size, align if count else 1, what)
        self.spend(4 if view else 4 + count * size, what)
        return start + 4, count

    def text(self, position: int, what: str) -> str:
        start = self.follow(position, what)
        known = self.strings.get(start)
        if known is None:
            first, count = self.vector(position, 1, 1, what)
            try:
                known = str(self.view[first : first + count], "utf-8")
            except UnicodeDecodeError as error:
                raise FormatError(f"{what}: the string at byte {first} is not UTF-8") from error
            self.strings[start] = known
        return known

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
        name, _, wires = _plan(cls)
        values: dict[str, Any] = {}
        for attribute, wire in wires:
            offset = slots[wire.id] if wire.id < len(slots) else 0
            if offset == 0:
                continue
            where = f"{name}.{attribute}"
            kind = wire.kind
            size = 1 if kind == "union" else _SIZES.get(kind, 4)
            if offset + size > extent:
                raise FormatError(f"{where}: the field lies outside its table at byte {position}")
            if kind in _CODES:
                value = self.number(_CODES[kind], size, position + offset, where)
                values[attribute] = self.member(wire.enum, value, where) if wire.enum else value
            elif kind == "union":
                number = self.number("B", 1, position + offset, where)
                offset = slots[wire.id + 1] if wire.id + 1 < len(slots) else 0
                if number == 0:
                    continue
                if wire.members is None or number not in wire.members:
                    raise FormatError(f"{where}: union type {number} at byte {position} is unknown")
                if offset == 0 or offset + 4 > extent:
                    raise FormatError(f"{where}: union type {number} at byte {position} has no value")
                values[attribute] = self.table(wire.members[number], self.follow(position + offset, where), where)
            else:
                values[attribute] = self.child(wire, position + offset, where)
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
        places = range(first, first + 4 * count, 4)
        if kind == "strings":
            return [self.text(place, what) for place in places]
        assert wire.table is not None
        return [self.table(wire.table, self.follow(place, what), what) for place in places]
