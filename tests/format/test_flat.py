"""The flatbuffer codec: what is packed comes back, and no buffer makes it fail with anything but FormatError."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgecore.format import FormatError, pack, unpack
from edgecore.format.flat import data, scalar, string, strings, table, tables, union, vector


@dataclass(slots=True)
class Leaf:
    number: int = scalar(0, "i64")


@dataclass(slots=True)
class Shape:
    value: float = scalar(0, "f64")


@dataclass(slots=True)
class Circle(Shape):
    pass


@dataclass(slots=True)
class Square(Shape):
    pass


@dataclass(slots=True)
class Mixed:
    flag: bool = scalar(0, "bool")
    tiny: int = scalar(1, "i8", default=-1)
    id: int = scalar(2, "u32", default=2**32 - 1)
    big: int = scalar(3, "u64")
    ratio: float = scalar(4, "f32")
    name: str = string(5)
    note: str | None = string(6, optional=True)
    shorts: list[int] = vector(7, "i16")
    doubles: list[float] | None = vector(8, "f64", optional=True)
    bits: list[bool] = vector(9, "bool")
    blob: bytes = data(10, align=16)
    words: list[str] = strings(12)  # id 11 is deprecated
    leaf: Leaf | None = table(13, Leaf)
    leaves: list[Leaf] = tables(14, Leaf)
    shape: Circle | Square | None = union(15, {1: Circle, 4: Square})


def int_range(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


LEAF = st.builds(Leaf, int_range(64))
MIXED = st.builds(
    Mixed,
    flag=st.booleans(),
    tiny=int_range(8),
    id=st.integers(0, 2**32 - 1),
    big=st.integers(0, 2**64 - 1),
    ratio=st.floats(width=32, allow_nan=False),
    name=st.text(max_size=20),
    note=st.none() | st.text(max_size=5),
    shorts=st.lists(int_range(16), max_size=9),
    doubles=st.none() | st.lists(st.floats(allow_nan=False), max_size=4),
    bits=st.lists(st.booleans(), max_size=9),
    blob=st.binary(max_size=40),
    words=st.lists(st.text(max_size=3), max_size=4),
    leaf=st.none() | LEAF,
    leaves=st.lists(LEAF, max_size=4),
    shape=st.none() | st.builds(Circle, st.floats(allow_nan=False)) | st.builds(Square, st.floats(allow_nan=False)),
)


@settings(deadline=None)  # machines differ
@given(MIXED)
def test_a_packed_value_is_unpacked_as_it_was(value: Mixed) -> None:
    assert unpack(Mixed, pack(value, b"TEST"), b"TEST") == value


@settings(deadline=None)
@given(MIXED)
def test_byte_vectors_are_aligned(value: Mixed) -> None:
    value.blob = b"sixteen byte mark" + value.blob
    assert bytes(pack(value)).index(value.blob) % 16 == 0


@settings(deadline=None)
@given(MIXED, st.data())
def test_damage_gives_a_format_error_or_another_value(value: Mixed, draw: st.DataObject) -> None:
    buffer = pack(value, b"TEST")
    for _ in range(draw.draw(st.integers(1, 4))):
        buffer[draw.draw(st.integers(0, len(buffer) - 1))] = draw.draw(st.integers(0, 255))
    try:
        unpack(Mixed, buffer[: draw.draw(st.integers(0, len(buffer)))])
        unpack(Mixed, buffer)
    except FormatError:
        pass


def test_defaults_take_no_space() -> None:
    assert len(pack(Mixed(tiny=-1, id=2**32 - 1))) == len(pack(Mixed()))
    assert len(pack(Mixed(tiny=0, id=0))) > len(pack(Mixed()))
    assert unpack(Mixed, pack(Mixed(tiny=0, id=0))) == Mixed(tiny=0, id=0)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Mixed(tiny=128), "Mixed: a value does not fit"),
        (Mixed(shorts=[1, 40000]), "Mixed.shorts"),
        (Mixed(name=None), "Mixed.name is None"),  # type: ignore[arg-type]
        (Mixed(shape=Leaf()), "Mixed.shape cannot hold a Leaf"),  # type: ignore[arg-type]
    ],
)
def test_a_value_that_does_not_fit_its_field_is_refused(value: Mixed, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        pack(value)


def test_a_wrong_identifier_is_refused_with_those_expected() -> None:
    with pytest.raises(FormatError, match=r"identifier b'TEST' at byte 4 is not 'AB00' or 'AB01'"):
        unpack(Mixed, pack(Mixed(), b"TEST"), (b"AB00", b"AB01"))


def test_an_unknown_type_of_a_union_is_refused() -> None:
    buffer = pack(Mixed(shape=Circle(1.0)))
    with pytest.raises(FormatError, match=r"union type 1 at byte [0-9]+ is unknown"):
        unpack(OtherUnion, buffer)


@dataclass(slots=True)
class OtherUnion:
    shape: Square | None = union(15, {4: Square})


def test_tables_that_refer_to_each_other_cannot_multiply() -> None:
    """Ten levels of 100 references to the same table are 100^10 tables in a few kilobytes."""
    cls = Leaf
    for level in range(10):
        cls = dataclass(type(f"Level{level}", (), {"__annotations__": {"items": list}, "items": tables(0, cls)}))
    buffer = bytearray(struct.pack("<I", 16) + b"\0" * 4 + struct.pack("<HHH2x", 6, 8, 4))
    for level in range(10):
        table_at = len(buffer)
        buffer += struct.pack("<iII", table_at - 8, 4, 100 if level < 9 else 0)
        if level < 9:
            end = len(buffer) + 400
            buffer += b"".join(struct.pack("<I", end - len(buffer) - 4 * i) for i in range(100))
    with pytest.raises(FormatError, match="offsets point to the same data so often"):
        unpack(cls, buffer)
