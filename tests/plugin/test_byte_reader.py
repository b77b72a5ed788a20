"""Whatever a blob holds, it is read within its bounds or refused in a sentence."""

from __future__ import annotations

import struct

import pytest

from edgecore.errors import FormatError
from edgecore.plugin import ByteReader

BLOB = b"ACME" + struct.pack("<3I", 2, 0x04030201, 3) + b"\xc3\xa9!" + bytes(1) + struct.pack("<BHQ", 1, 2, 3)


def read(blob: bytes) -> tuple:
    reader = ByteReader(blob)
    reader.header(b"ACME", 2, "edgecore-acme")
    values = reader.number(), reader.text()
    reader.align(4)
    values += reader.number(1), reader.number(2), reader.number(8)
    reader.finish()
    return values


def test_values_are_read_as_they_were_written():
    assert read(BLOB) == (0x04030201, "\u00e9!", 1, 2, 3)
    assert ByteReader(BLOB[8:12] * 3).numbers(3) == (0x04030201,) * 3


def test_every_truncation_is_refused():
    for size in range(len(BLOB)):
        with pytest.raises(FormatError, match="end too early" if size >= 4 else "not written by edgecore-acme"):
            read(BLOB[:size])


@pytest.mark.parametrize(
    ("blob", "sentence"),
    [
        (b"OTHER", "was not written by edgecore-acme"),
        (b"ACME" + bytes([3, 0, 0, 0]), "version 3 and this edgecore-acme reads version 2: install"),
        (BLOB + b"!", "1 bytes follow its end"),
    ],
)
def test_values_beyond_the_bounds_of_a_blob_are_refused(blob, sentence):
    with pytest.raises(FormatError, match=sentence):
        read(blob)


def test_a_count_is_of_records_that_fit():
    assert ByteReader(struct.pack("<I", 2) + bytes(8)).count(4) == 2
    with pytest.raises(FormatError, match="3 records in 8 bytes"):
        ByteReader(struct.pack("<I", 3) + bytes(8)).count(4)
    with pytest.raises(FormatError, match="end too early"):
        ByteReader(struct.pack("<I", 0xFFFFFFFF)).numbers(0xFFFFFFFF)


def test_a_part_of_a_blob_is_a_view_and_must_lie_inside():
    reader = ByteReader(b"0123456789")
    assert bytes(reader.part(2, 3)) == b"234" and reader.position == 0
    assert bytes(reader.part(10, 0)) == b""
    with pytest.raises(FormatError, match="bytes 8 to 11 lie outside its 10 bytes"):
        reader.part(8, 3)
