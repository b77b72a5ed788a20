"""Write, check and describe blobs."""

from __future__ import annotations

import hashlib
import struct

import pytest

from edgecore.errors import FormatError
from edgecore_qnn.blob import CONTEXT_OFFSET, Header, Tensor, decode, describe, encode
from edgecore_qnn.compiler import QnnCompiler

CONTEXT = bytes(range(256)) * 3 + b"tail"


def make_blob(**changes: object) -> bytes:
    values = {
        "sdk_build": "v2.51.0.1", "core_api": "2.40.0", "provider": "2.7.0", "soc": "SM8650", "soc_id": 57,
        "htp_arch": 75, "graph": "graph", "partition_name": "part",
        "inputs": [Tensor("input_0", "uint8", [1, 8], 0.5, 3)], "outputs": [Tensor("output_0", "float32", [1, 4])],
    }  # fmt: skip
    return encode(Header(**{**values, **changes}), CONTEXT)  # type: ignore[arg-type]


def test_a_blob_starts_as_the_documented_delegate_reads_it():
    blob = make_blob()
    magic, signature, size = struct.unpack_from("<I8sQ", blob)
    assert magic == 0x5678ABCD and size == len(CONTEXT)
    assert blob[CONTEXT_OFFSET : CONTEXT_OFFSET + size] == CONTEXT
    assert signature == hashlib.sha256(CONTEXT).digest()[:8]


def test_a_decoded_blob_has_what_was_encoded():
    header, context = decode(make_blob())
    assert context == CONTEXT
    assert (header.soc, header.soc_id, header.htp_arch, header.sdk_build) == ("SM8650", 57, 75, "v2.51.0.1")
    assert header.inputs == [Tensor("input_0", "uint8", [1, 8], 0.5, 3)]


def test_the_description_names_target_versions_and_tensors():
    text = "\n".join(describe(make_blob()))
    for part in ("SM8650", "HTP V75", "v2.51.0.1", "onnxruntime-qnn 2.7.0", "uint8 [1, 8], scale 0.5, zero point 3"):
        assert part in text


def test_a_change_of_any_byte_is_found():
    blob = make_blob()
    for index in range(len(blob)):
        damaged = bytearray(blob)
        damaged[index] ^= 0x5A
        try:
            _, context = decode(bytes(damaged))
        except FormatError:
            continue
        # What describes the compilation has no check of its own: the file has a hash of the blob.
        assert context == CONTEXT and index > CONTEXT_OFFSET + len(CONTEXT), index


@pytest.mark.parametrize("size", [0, 10, CONTEXT_OFFSET, CONTEXT_OFFSET + 300, -1, -9])
def test_a_truncated_blob_is_an_error(size: int):
    with pytest.raises(FormatError):
        decode(make_blob()[:size])


@pytest.mark.parametrize(
    ("blob", "message"),
    [
        (b"PK" + bytes(1000), "not written for Qualcomm's delegate"),
        (make_blob()[:-4] + b"ABCD", "has no header of edgecore-qnn"),
        (make_blob() + bytes(8), "has no header of edgecore-qnn"),
        (make_blob(version=2), "version 2.*compile the model again"),
        (make_blob(outputs=[]), "has no outputs"),
        (make_blob(inputs=[Tensor("x", "text", [1])]), "tensor 'x' is 'text'"),
        (make_blob(inputs=[Tensor("x", "float32", [0])]), r"tensor 'x' is 'float32' \[0\]"),
        (make_blob(inputs=[Tensor("x", "float32", [1], largest=float("nan"))]), "largest number of tensor 'x' is nan"),
        (make_blob(inputs=[Tensor("x", "uint8", [1], largest=2.0)]), "largest number of tensor 'x' is 2.0"),
    ],
)
def test_an_error_says_what_is_wrong_with_a_blob(blob: bytes, message: str):
    with pytest.raises(FormatError, match=message):
        decode(blob)


def test_another_context_binary_is_not_that_of_the_header():
    blob = bytearray(make_blob())
    blob[CONTEXT_OFFSET + 5] ^= 1
    with pytest.raises(
        FormatError, match="the blob is damaged: the context binary is not the one that the header describes"
    ):
        QnnCompiler().verify_blob(bytes(blob), {}, runtime="edgecore")


def test_bytes_around_the_context_binary_must_be_zeros():
    blob = bytearray(make_blob())
    blob[100] = 1
    with pytest.raises(FormatError, match="around the context binary are not zeros"):
        decode(bytes(blob))
