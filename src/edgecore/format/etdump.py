"""Read and write ETDump files (`.etdp`): the events of one or more runs, in the format of ExecuTorch 1.x.

A file is one flatbuffer with a size prefix. The runtimes write tens of thousands of events. To read them field by
field, as `flat.unpack` does, takes 30 us an event. So `read_etdump` makes a `struct.Struct` for each vtable (a file has
only a few), and takes 3 to 4 us an event.
"""

from __future__ import annotations

import gc
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from operator import itemgetter
from typing import Any

from edgecore.errors import FormatError

from .flat import Buffer, Reader, Wire, data, pack, scalar, string, table, tables, vector

ETDUMP_IDENTIFIER = b"ED00"
_EVENT_BYTES = 40  # minimum size of an event in bytes: its table, its entry in the vector, and two times


class ValueType(IntEnum):
    """The type of a `Value`, which says which member of the `Value` is set."""

    NULL = 0
    INT = 1
    BOOL = 2
    FLOAT = 3
    DOUBLE = 4
    TENSOR = 5
    TENSOR_LIST = 6
    STRING = 7


@dataclass(slots=True)
class Int:
    int_val: int = scalar(0, "i64")


@dataclass(slots=True)
class Bool:
    bool_val: bool = scalar(0, "bool")


@dataclass(slots=True)
class Float:
    float_val: float = scalar(0, "f32")


@dataclass(slots=True)
class Double:
    double_val: float = scalar(0, "f64")


@dataclass(slots=True)
class Tensor:
    """A tensor whose elements start at `offset` of the debug buffer, which is a separate file.

    `scalar_type` has the numbers of `edgecore.format.ScalarType`; a file of a later version may have other numbers.
    """

    scalar_type: int = scalar(0, "i8")
    sizes: list[int] = vector(1, "i64")
    strides: list[int] = vector(2, "i64")
    offset: int = scalar(3, "i64")


@dataclass(slots=True)
class TensorList:
    tensors: list[Tensor] = tables(0, Tensor)


@dataclass(slots=True)
class Value:
    """A value that an operator computed. `output` is true for a result of the method."""

    val: ValueType = scalar(0, "i8", enum=ValueType)
    tensor: Tensor | None = table(1, Tensor)
    tensor_list: TensorList | None = table(2, TensorList)
    int_value: Int | None = table(3, Int)
    float_value: Float | None = table(4, Float)
    double_value: Double | None = table(5, Double)
    bool_value: Bool | None = table(6, Bool)
    output: Bool | None = table(7, Bool)


@dataclass(slots=True)
class ProfileEvent:
    """The times of one event.

    Attributes:
        name: `native_call_OPERATOR`, `DELEGATE_CALL`, `Method::execute` and others; None if a delegate passed only an
            id.
        chain_index: Index of the chain of instructions; -1 outside of a chain.
        instruction_id: Index of the instruction in its chain; -1 if the event belongs to no instruction.
        delegate_debug_id_int: The number by which a delegate identifies the operation; -1 if it uses none.
        delegate_debug_id_str: The string by which a delegate identifies the operation, if it uses one.
        delegate_debug_metadata: Further data from the delegate, in its own format.
        start_time: Begin of the event, in the unit of the runtime's clock: usually nanoseconds.
        end_time: End of the event.
    """

    name: str | None = string(0, optional=True)
    chain_index: int = scalar(1, "i32")
    instruction_id: int = scalar(2, "i32", default=-1)
    delegate_debug_id_int: int = scalar(3, "i32", default=-1)
    delegate_debug_id_str: str | None = string(4, optional=True)
    delegate_debug_metadata: Buffer | None = data(5, optional=True)
    start_time: int = scalar(6, "u64")
    end_time: int = scalar(7, "u64")


@dataclass(slots=True)
class DebugEvent:
    """A value (`debug_entry`) that an operator or an operation in a delegate computed.

    The other fields mean the same as in `ProfileEvent`.
    """

    chain_index: int = scalar(0, "u64")
    instruction_id: int = scalar(1, "i32", default=-1)
    debug_entry: Value | None = table(2, Value)
    delegate_debug_id_int: int = scalar(3, "i32", default=-1)
    delegate_debug_id_str: str | None = string(4, optional=True)
    name: str | None = string(5, optional=True)


@dataclass(slots=True)
class AllocationEvent:
    allocator_id: int = scalar(0, "i32")
    allocation_size: int = scalar(1, "u64")


@dataclass(slots=True)
class Allocator:
    name: str | None = string(0, optional=True)


@dataclass(slots=True)
class Event:
    """An event of a run: exactly one of the three members is set."""

    profile_event: ProfileEvent | None = table(0, ProfileEvent)
    allocation_event: AllocationEvent | None = table(1, AllocationEvent)
    debug_event: DebugEvent | None = table(2, DebugEvent)


@dataclass(slots=True)
class RunData:
    """A block of events: one run of a method ("Execute"), or loading ("Default")."""

    name: str | None = string(0, optional=True)
    bundled_input_index: int = scalar(1, "i32", default=-1)
    allocators: list[Allocator] = tables(2, Allocator)
    events: list[Event] = tables(3, Event)


@dataclass(slots=True)
class ETDump:
    """The root table of an ETDump file."""

    version: int = scalar(0, "u32")
    run_data: list[RunData] = tables(1, RunData)


def write_etdump(etdump: ETDump) -> bytes:
    """Return the file as bytes."""
    return bytes(pack(etdump, ETDUMP_IDENTIFIER, size_prefix=True))


def read_etdump(buffer: Buffer) -> ETDump:
    """Read an ETDump.

    Raises:
        FormatError: The buffer is not an ETDump, or damaged.
    """
    content = bytes(buffer)
    if len(content) < 12 or content[8:12] != ETDUMP_IDENTIFIER:
        raise FormatError("not an ETDump: no identifier 'ED00' at byte 8")
    size = int.from_bytes(content[:4], "little") + 4
    if size > len(content):
        raise FormatError(f"the ETDump is cut off: it should have {size} bytes, but has {len(content)}")
    reader = _DumpReader(content)
    with garbage_kept():
        return reader.table(ETDump, reader.follow(4, "ETDump"), "ETDump")


@contextmanager
def garbage_kept() -> Iterator[None]:
    """Stop Python's garbage collector during a `with` block that makes many objects but no garbage.

    The collector's repeated scans would double the time of reading a trace.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@dataclass(frozen=True, slots=True)
class _Layout:
    """The functions and offsets for reading profile events that share a vtable.

    `unpack` reads the fields that are present. `pick` selects (name, chain, instruction, id, id string, metadata,
    start, end) from these and the appended `_DEFAULTS`. `name`, `text` and `metadata` are the offsets of the fields
    name, id string and metadata in the table.
    """

    unpack: Callable[[bytes, int], tuple[Any, ...]]
    pick: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    name: int
    text: int
    metadata: int


_CODES = "IiiiIIQQ"  # struct codes of the fields of ProfileEvent
_DEFAULTS = (0, 0, -1, -1, 0, 0, 0, 0)
_WHAT = "RunData.events"


class _DumpReader(Reader):
    """A reader of ETDumps: it reads events by one `struct.Struct` per vtable, and other tables like `flat.unpack`."""

    def __init__(self, content: bytes) -> None:
        super().__init__(memoryview(content))
        self.content = content
        self.slots: dict[int, int] = {}  # position of an Event's vtable -> offset of its field `profile_event`, or 0
        self.layouts: dict[int, _Layout] = {}
        self.metadata: dict[int, bytes] = {}

    def child(self, wire: Wire, position: int, what: str) -> Any:
        if wire.table is not Event:
            return super().child(wire, position, what)
        first, count = self.vector(position, 4, 4, what)
        self.spend(count * _EVENT_BYTES, what)
        return self.events(first, count)

    def events(self, first: int, count: int) -> list[Event]:
        content = self.content
        offsets = struct.unpack_from(f"<{count}I", content, first)
        number, signed = struct.Struct("<I").unpack_from, struct.Struct("<i").unpack_from
        slots, layouts, strings, known = self.slots, self.layouts, self.strings, self.metadata
        events: list[Event] = []
        try:
            for index, offset in enumerate(offsets):
                position = first + 4 * index + offset
                vtable = position - signed(content, position)[0]
                slot = slots.get(vtable)
                if slot is None:
                    slot = slots[vtable] = self.profile_slot(vtable)
                if slot == 0:
                    events.append(self.table(Event, position, _WHAT))
                    continue
                place = position + slot
                place += number(content, place)[0]
                vtable = place - signed(content, place)[0]
                layout = layouts.get(vtable)
                if layout is None:
                    layout = layouts[vtable] = self.profile_layout(vtable)
                if (position | place) & 3:
                    raise FormatError(f"{_WHAT}: event {index} at byte {position} is not aligned")
                fields = layout.pick(layout.unpack(content, place) + _DEFAULTS)
                name, chain, instruction, number_id, text, metadata, start, end = fields
                if name:
                    at = place + layout.name
                    name = strings.get(at + name) or self.text(at, "ProfileEvent.name")
                if text:
                    at = place + layout.text
                    text = strings.get(at + text) or self.text(at, "ProfileEvent.delegate_debug_id_str")
                if metadata:
                    at = place + layout.metadata
                    data = known.get(at + metadata)
                    if data is None:
                        data = known[at + metadata] = self.bytes_at(at)
                else:
                    data = None
                profile = ProfileEvent(name or None, chain, instruction, number_id, text or None, data, start, end)
                events.append(Event(profile))
        except struct.error as error:
            raise FormatError(f"{_WHAT}: event {len(events)} lies outside the file of {self.size} bytes") from error
        return events

    def bytes_at(self, position: int) -> bytes:
        """Return the bytes of the metadata whose offset is at `position`."""
        first, size = self.vector(position, 1, 1, "ProfileEvent.delegate_debug_metadata")
        return self.content[first : first + size]

    def vtable(self, position: int, what: str) -> tuple[int, tuple[int, ...]]:
        """Read the vtable at `position`: return the size of its table and the offsets of its fields, 0 if absent."""
        length = int(self.number("H", 2, position, what))
        self.check(position, max(length, 4), 2, what)
        slots = struct.unpack_from(f"<{length // 2}H", self.view, position)
        if length < 4 or length % 2 or slots[1] < 4:
            raise FormatError(f"{what}: the vtable at byte {position} is malformed")
        return slots[1], slots[2:]

    def profile_slot(self, position: int) -> int:
        """Return the offset of `Event.profile_event`; 0 if an event with this vtable has another member."""
        extent, slots = self.vtable(position, "Event")
        if not slots or slots[0] == 0 or any(slots[1:]):
            return 0
        if not 4 <= slots[0] <= extent - 4:
            raise FormatError("Event.profile_event: the field lies outside its table")
        return slots[0]

    def profile_layout(self, position: int) -> _Layout:
        extent, slots = self.vtable(position, "ProfileEvent")
        present = sorted((slot, field) for field, slot in enumerate(slots[: len(_CODES)]) if slot)
        code, used, where = "<", 0, {}
        for order, (slot, field) in enumerate(present):
            size = struct.calcsize("<" + _CODES[field])
            if slot < max(used, 4) or slot + size > extent:
                raise FormatError(f"ProfileEvent: the vtable at byte {position} has fields that overlap or lie outside")
            code += f"{slot - used}x{_CODES[field]}"
            used = slot + size
            where[field] = order
        picked = [where.get(field, len(present) + field) for field in range(len(_CODES))]
        at = {field: slot for slot, field in present}
        return _Layout(struct.Struct(code).unpack_from, itemgetter(*picked), at.get(0, 0), at.get(4, 0), at.get(5, 0))
