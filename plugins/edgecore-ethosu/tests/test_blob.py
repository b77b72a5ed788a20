"""Blobs: the block layout, and damaged ones in Python and in the delegate."""

from __future__ import annotations

import struct

import pytest
from ethosu_models import blob_of, conv_file

import edgecore
from edgecore.errors import CompileError, ExecutionError, FormatError
from edgecore_ethosu.blob import VelaProgram, VelaTensor, describe_blob, read_blob, write_blob
from edgecore_ethosu.compiler import EthosUCompiler

TENSOR = VelaTensor((1, 1, 1, 2, 6, 6), 1, 16, 1)
PROGRAM = VelaProgram(b"COP1" + bytes(16), b"weights", 256, (TENSOR,), (TENSOR, TENSOR))


def test_a_blob_has_the_documented_blocks():
    blob = write_blob(PROGRAM)
    blocks = {}
    position = 0
    while position < len(blob):
        name, size, flag, reserved = struct.unpack_from("<16sIB11s", blob, position)
        assert flag == 0 and not any(reserved)
        position += 32
        blocks[name.rstrip(b"\0").decode()] = blob[position : position + size]
        position += (size + 15) // 16 * 16
    tensor = struct.pack("<9i", 1, 1, 1, 2, 6, 6, 1, 16, 1)
    assert list(blocks.items()) == [
        ("vela_bin_stream", b""),
        ("cmd_data", PROGRAM.command_stream),
        ("weight_data", b"weights"),
        ("scratch_size", struct.pack("<I", 256)),
        ("inputs", struct.pack("<i", 1) + tensor),
        ("outputs", struct.pack("<i", 2) + 2 * tensor),
        ("vela_end_stream", b""),
    ]


def test_a_blob_is_read_as_it_was_written():
    assert read_blob(write_blob(PROGRAM)) == PROGRAM
    empty = VelaProgram(b"COP1", b"", 0, (), ())
    assert read_blob(write_blob(empty)) == empty


def test_a_description_names_sizes_and_arguments():
    assert describe_blob(write_blob(PROGRAM)) == [
        "command stream: 20 bytes",
        "weights: 7 bytes",
        "arena: 256 bytes",
        "input 0: 1x1x1x2x6x6, 1 bytes an element, at offset 16 of region 1",
        "output 0: 1x1x1x2x6x6, 1 bytes an element, at offset 16 of region 1",
        "output 1: 1x1x1x2x6x6, 1 bytes an element, at offset 16 of region 1",
    ]


def test_an_arena_that_is_too_large_is_refused():
    with pytest.raises(CompileError, match="needs an arena of 3,000,000,000 bytes"):
        write_blob(VelaProgram(b"COP1", b"", 3_000_000_000, (), ()))


DATA = 32  # bytes from the start of a block to its data
DAMAGED = [
    ("vela_bin_stream", 0, b"x", "not written for an Ethos-U delegate"),
    ("cmd_data", 0, b"x", "where cmd_data must be"),
    ("cmd_data", 20, b"\1", "the block cmd_data is outside the blob"),
    ("cmd_data", 20, b"\2", "the block cmd_data has unknown flags"),
    ("cmd_data", 21, b"\1", "the block cmd_data has unknown flags"),
    ("cmd_data", DATA, b"COP2", "cmd_data is no command stream"),
    ("weight_data", 16, b"\xff\xff\xff\xff", "end too early"),
    ("scratch_size", 16, b"\5", "scratch_size has 5 bytes"),
    ("scratch_size", DATA, b"\xff\xff\xff\xff", "its arena has 4294967295 bytes"),
    ("scratch_size", DATA + 4, b"\1", "the bytes after the block scratch_size are not zeros"),
    ("inputs", DATA, b"\xff\xff\xff\xff", "4294967295 records"),
    ("inputs", DATA, b"\0", "36 bytes follow its end"),
    ("inputs", DATA + 4, b"\0", "input 0 has"),
    ("inputs", DATA + 28, b"\3", "input 0 has"),
    ("inputs", DATA + 32, b"\xff", "input 0 lies outside the arena of 160 bytes"),
    ("inputs", DATA + 39, b"\xff", "input 0 lies outside the arena of 160 bytes"),
    ("outputs", DATA + 7, b"\x7f", "output 0 has|output 0 lies outside the arena"),
    ("vela_end_stream", 16, b"\1", "end too early"),
]


@pytest.mark.parametrize(("block", "at", "value", "sentence"), DAMAGED)
def test_a_damaged_blob_is_refused_by_python_and_by_the_delegate(block, at, value, sentence):
    content = conv_file()
    blob = bytearray(blob_of(content))
    at += blob.index(block.encode())
    blob[at : at + len(value)] = value
    with pytest.raises(FormatError, match=sentence):
        EthosUCompiler().verify_blob(bytes(blob), {}, runtime="edgecore")
    # Without its metadata, a file has no hash of the blob.
    changed = content.replace(blob_of(content), blob).replace(b"edgecore.meta.v1", b"edgecore.meta.v0")
    with pytest.raises(ExecutionError, match=sentence):
        edgecore.load(changed, trust=True)


def test_every_truncation_of_a_blob_is_refused():
    blob = write_blob(PROGRAM)
    for size in range(len(blob)):
        with pytest.raises(FormatError):
            read_blob(blob[:size])
        with pytest.raises(FormatError):
            EthosUCompiler().blob_graph(blob[:size], {})
    with pytest.raises(FormatError, match="1 bytes follow"):
        read_blob(blob + b"\0")


def test_a_changed_byte_of_a_file_is_refused_by_its_hash():
    content = bytearray(conv_file())
    content[content.index(b"vela_end_stream") + 1] ^= 1
    with pytest.raises(ExecutionError, match="SHA-256|hash"):
        edgecore.load(bytes(content))
