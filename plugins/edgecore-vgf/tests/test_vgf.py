"""VGF files: what the reader finds, and damaged ones in Python and in the delegate."""

from __future__ import annotations

import random
import struct

import pytest
from vgf_models import NETWORK_INPUTS, SUB_INPUTS, Network, Sub, blob_of, compiled, sub_file

import edgecore
from edgecore.errors import ExecutionError, FormatError
from edgecore_vgf.compiler import VgfCompiler
from edgecore_vgf.vgf import TensorInfo, read_vgf

HEADER = {"magic": 0, "minor": 9, "modules": 16, "sequence": 32, "resources": 48, "constants": 64}


@pytest.fixture(scope="module")
def network() -> bytes:
    return bytes(compiled(Network(), NETWORK_INPUTS).buffer)


def test_a_file_has_the_arguments_and_constants_of_the_partition(network):
    vgf = read_vgf(blob_of(network))
    assert vgf.inputs == (TensorInfo("float32", (1, 3, 10, 10), 1200),)
    assert vgf.outputs == (TensorInfo("float32", (1, 10), 40),)
    assert TensorInfo("float32", (8, 3, 3, 3), 864) in vgf.constants


def section(blob: bytes, name: str) -> int:
    return struct.unpack_from("<Q", blob, HEADER[name])[0]


def refused(content: bytes, blob: bytes, damaged: bytes, sentence: str) -> None:
    """Expect that Python and the delegate refuse a damaged blob in a file."""
    with pytest.raises(FormatError, match=sentence):
        VgfCompiler().verify_blob(damaged, {}, runtime="edgecore")
    # Without its metadata, a file has no hash of the blob.
    changed = content.replace(blob, damaged).replace(b"edgecore.meta.v1", b"edgecore.meta.v0")
    with pytest.raises(ExecutionError, match=sentence):
        edgecore.load(changed, trust=True)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    ("at", "value", "sentence"),
    [
        ("magic", b"VGF2", "the blob is no VGF file"),
        ("minor", b"\x09", r"a VGF file of version 0\.9\.0, and this edgecore-vgf reads 0\.4 and 0\.5"),
        ("modules", b"\x81", "a section of .* is outside of its"),
        ("modules", struct.pack("<Q", 2**63), "a section of .* is outside of its"),
        ("constants", struct.pack("<QQ", 128, 2**63), "a section of .* is outside of its"),
    ],
)
def test_a_damaged_header_is_refused(at, value, sentence):
    blob = bytearray(blob_of(sub_file()))
    blob[HEADER[at] : HEADER[at] + len(value)] = value
    refused(sub_file(), blob_of(sub_file()), bytes(blob), sentence)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    ("offset", "value", "sentence"),
    [
        (0, b"X", "its section of constants has an unknown format"),
        (8, struct.pack("<Q", 2**60), "it has 1152921504606846976 constants"),
        (16, struct.pack("<I", 99), "it has no resource with the number 99"),
        (20, struct.pack("<i", 0), "the VGF file has a sparse constant"),
        (24, struct.pack("<Q", 2**63), "the constant 0 lies outside of its section"),
        (32, struct.pack("<Q", 2**63), "the constant 0 lies outside of its section"),
    ],
)
def test_damaged_constants_are_refused(network, offset, value, sentence):
    blob = bytearray(blob_of(network))
    at = section(blob, "constants") + offset
    blob[at : at + len(value)] = value
    refused(network, blob_of(network), bytes(blob), sentence)


@pytest.mark.usefixtures("device")
def test_a_module_that_is_no_spirv_is_refused():
    blob = blob_of(sub_file())
    refused(sub_file(), blob, blob.replace(b"\x03\x02\x23\x07", b"\x03\x02\x23\x08", 1), "its module has no SPIR-V")


def test_every_truncation_of_a_file_is_refused():
    blob = blob_of(sub_file())
    for size in range(len(blob)):
        with pytest.raises(FormatError):
            read_vgf(blob[:size])


def test_a_changed_byte_never_gives_another_exception_than_a_format_error(network):
    blob, generator = blob_of(network), random.Random(0)
    for _ in range(500):
        damaged = bytearray(blob)
        damaged[generator.randrange(len(blob))] = generator.randrange(256)
        try:
            read_vgf(bytes(damaged))
        except FormatError:
            pass


def test_a_changed_byte_of_a_file_is_refused_by_its_hash():
    content = bytearray(sub_file())
    content[content.index(b"graph_partition")] ^= 1
    with pytest.raises(ExecutionError, match="SHA-256|hash"):
        edgecore.load(bytes(content))


def test_the_blob_is_the_file_that_the_converter_writes(tmp_path):
    program = compiled(Sub(), SUB_INPUTS, dump_intermediate_artifacts_to=str(tmp_path))
    (written,) = tmp_path.glob("*/graph.vgf")
    assert blob_of(bytes(program.buffer)) == written.read_bytes()
