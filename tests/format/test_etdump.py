"""ETDump files: what is written is read, also by executorch; damage is one sentence."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgecore.errors import FormatError
from edgecore.format.etdump import (
    AllocationEvent,
    Allocator,
    Bool,
    DebugEvent,
    Double,
    ETDump,
    Event,
    Float,
    Int,
    ProfileEvent,
    RunData,
    Tensor,
    TensorList,
    Value,
    ValueType,
    read_etdump,
    write_etdump,
)

TENSOR = Tensor(6, [2, 3], [3, 1], 64)
VALUES = [
    Value(ValueType.TENSOR, TENSOR, output=Bool(True)),
    Value(ValueType.TENSOR_LIST, tensor_list=TensorList([TENSOR, Tensor(4, [], [], 128)])),
    Value(ValueType.INT, int_value=Int(-3)),
    Value(ValueType.FLOAT, float_value=Float(0.5)),
    Value(ValueType.DOUBLE, double_value=Double(-0.25)),
    Value(ValueType.BOOL, bool_value=Bool(True)),
]
EVENTS = [
    Event(ProfileEvent("native_call_add.out", 0, 0, start_time=2**63, end_time=2**64 - 1)),
    Event(ProfileEvent(None, 0, 1, -1, "Conv2d [12]", b'{"kernel": "GEMM"}', 5, 9)),
    Event(ProfileEvent("Method::execute", -1, 0, 7, start_time=1, end_time=9)),
    Event(allocation_event=AllocationEvent(1, 2**40)),
    *(Event(debug_event=DebugEvent(2**64 - 1, 3, value, name="values")) for value in VALUES),
]


def sample() -> ETDump:
    return ETDump(0, [RunData("Default"), RunData("Execute", 2, [Allocator("planned")], list(EVENTS)), RunData(None)])


def test_a_dump_is_read_as_it_was_written() -> None:
    content = write_etdump(sample())
    assert content[8:12] == b"ED00"
    assert struct.unpack_from("<I", content)[0] == len(content) - 4
    assert read_etdump(content) == sample()


def test_executorch_reads_what_we_write() -> None:
    serialize = pytest.importorskip("executorch.devtools.etdump.serialize")
    dump = sample()
    dump.run_data.pop()  # executorch insists on a name
    read = serialize.deserialize_from_etdump_flatcc(write_etdump(dump))
    assert [run.name for run in read.run_data] == ["Default", "Execute"]
    assert read.run_data[1].bundled_input_index == 2
    events = read.run_data[1].events
    first, second = events[0].profile_event, events[1].profile_event
    assert (first.name, first.instruction_id, first.end_time) == ("native_call_add.out", 0, 2**64 - 1)
    assert second.delegate_debug_id_str == "Conv2d [12]"
    assert second.delegate_debug_metadata == b'{"kernel": "GEMM"}'
    values = [event.debug_event.debug_entry for event in events if event.debug_event]
    assert values[0].tensor.sizes == [2, 3]
    assert values[0].output.bool_val
    assert (values[2].int_value.int_val, values[4].double_value.double_val) == (-3, -0.25)


def test_many_events_need_little_more_than_their_bytes_once() -> None:
    """The bound on work lets a dump of any length through."""
    dump = ETDump(0, [RunData("Execute", events=EVENTS[:3] * 300) for _ in range(20)])
    assert read_etdump(write_etdump(dump)) == dump


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not an ETDump"),
        (b"PK\3\4" + bytes(30), "not an ETDump"),
        (b"\0\0\0\0ET12ED00", "ETDump.*outside"),
        (struct.pack("<I", 9999) + b"\x10\0\0\0ED00" + bytes(40), "cut off: it should have 10003 bytes, but has 52"),
    ],
)
def test_a_foreign_file_is_refused_in_one_sentence(content: bytes, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        read_etdump(content)


def with_shared_event(count: int) -> bytes:
    """A dump whose only run has `count` events that are the same table of the file."""
    content = bytearray(write_etdump(ETDump(0, [RunData(None, events=EVENTS[:1])])))
    vector = content.index(struct.pack("<II", 1, 12))  # one event, 12 bytes behind its entry
    added = 4 * (count - 1)
    allocators = vector - 4  # the offset of a vector behind the events
    struct.pack_into("<I", content, allocators, struct.unpack_from("<I", content, allocators)[0] + added)
    struct.pack_into("<I", content, 0, len(content) + added - 4)
    offsets = (12 + added - 4 * index for index in range(count))
    content[vector : vector + 8] = struct.pack(f"<{count + 1}I", count, *offsets)
    return bytes(content)


def test_events_that_share_one_table_too_often_are_refused() -> None:
    assert read_etdump(with_shared_event(5)).run_data[0].events == EVENTS[:1] * 5
    with pytest.raises(FormatError, match=r"RunData\.events: offsets point to the same data so often"):
        read_etdump(with_shared_event(10_001))


def test_a_name_that_is_not_utf8_is_refused() -> None:
    content = bytearray(write_etdump(ETDump(0, [RunData("Execute", events=EVENTS[:1] * 5)])))
    name = content.index(b"native_call")
    content[name] = 0xFF
    with pytest.raises(FormatError, match=r"ProfileEvent\.name: the string at byte .* is not UTF-8"):
        read_etdump(content)


@given(st.data())
@settings(max_examples=500, deadline=None)
def test_damage_gives_a_format_error_or_a_dump(data: st.DataObject) -> None:
    content = bytearray(write_etdump(sample()))
    places = st.integers(0, len(content) - 1)
    for place, value in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), min_size=1, max_size=5)):
        content[place] = value
    end = data.draw(st.one_of(st.just(len(content)), places))
    with contextlib.suppress(FormatError):
        read_etdump(content[:end])
