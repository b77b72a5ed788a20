"""Write, read and describe the blob of a delegate: a context binary in ExecuTorch's format, with edgecore's header.

All numbers are little-endian:

    u32 magic 0x5678ABCD; 8 bytes signature; u64 size of the context binary; 236 zeros
    the context binary, from byte 256 on; zeros up to a multiple of 16
    the header: a flatbuffer of `schema/qnn_header.fbs`
    u32 size of the header; "EQNH"

ExecuTorch's runtime stops at the end of the context binary, so readers find the header from the end of the blob. The
signature is the start of the context binary's SHA-256; it distinguishes context binaries in one process.
`native/src/blob.cpp` reads the same format.
"""

from __future__ import annotations

import hashlib
import struct
from math import inf

from edgecore.errors import FormatError
from edgecore.sdk.flat import pack, unpack
from edgecore_qnn.schema.header import IDENTIFIER, VERSION, Header, Tensor

MAGIC = 0x5678ABCD
CONTEXT_OFFSET = 256
"""Offset of the context binary, aligned as ExecuTorch's delegate documents it."""
TRAILER_MAGIC = b"EQNH"
DTYPES = {
    "float32": 4, "float16": 2, "uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "int32": 4, "uint32": 4, "int64": 8,
    "bool": 1,
}  # fmt: skip
"""Dtypes of inputs and outputs, with bytes per element."""

_START = struct.Struct("<I8sQ")
_TRAILER = struct.Struct("<I4s")
_ALIGNMENT = 16
_MAX_RANK = 8


def encode(header: Header, context: bytes) -> bytes:
    """Set the digest in `header`, and return the blob of a context binary."""
    digest = hashlib.sha256(context).digest()
    header.context_sha256 = digest
    start = _START.pack(MAGIC, digest[:8], len(context))
    blob = bytearray(start.ljust(CONTEXT_OFFSET, b"\0") + context)
    blob += bytes(-len(blob) % _ALIGNMENT)
    packed = pack(header, IDENTIFIER)
    return bytes(blob + packed + _TRAILER.pack(len(packed), TRAILER_MAGIC))


def decode(blob: bytes) -> tuple[Header, bytes]:
    """Return header and context binary of a blob; check everything except the content of the context binary.

    Raises:
        FormatError: The blob is damaged, or was not written by edgecore-qnn.
    """
    if len(blob) < CONTEXT_OFFSET + _TRAILER.size:
        raise FormatError(f"the blob is damaged: it has {len(blob)} bytes")
    magic, signature, size = _START.unpack_from(blob)
    if magic != MAGIC:
        raise FormatError(f"the blob was not written for Qualcomm's delegate: it starts with {magic:#010x}")
    header_size, trailer = _TRAILER.unpack_from(blob, len(blob) - _TRAILER.size)
    if trailer != TRAILER_MAGIC:
        raise FormatError("the blob has no header of edgecore-qnn: it was cut off, or another program wrote it")
    context_end = CONTEXT_OFFSET + size
    header_start = context_end + -context_end % _ALIGNMENT
    if header_start + header_size + _TRAILER.size != len(blob):
        raise FormatError(
            f"the blob is damaged: a context binary of {size} bytes and a header of {header_size} bytes do not fill it"
        )
    if any(blob[_START.size : CONTEXT_OFFSET]) or any(blob[context_end:header_start]):
        raise FormatError("the blob is damaged: the bytes around the context binary are not zeros")
    header = unpack(Header, blob[header_start : header_start + header_size], IDENTIFIER)
    if header.version != VERSION:
        raise FormatError(
            f"the blob has version {header.version}, and this edgecore-qnn reads version {VERSION}: compile the model "
            "again"
        )
    _check_tensors(header)
    context = blob[CONTEXT_OFFSET:context_end]
    digest = hashlib.sha256(context).digest()
    if digest != bytes(header.context_sha256) or signature != digest[:8]:
        raise FormatError("the blob is damaged: the context binary is not the one that the header describes")
    return header, context


def describe(blob: bytes) -> list[str]:
    """Return lines that describe a blob: target, versions, inputs and outputs.

    Raises:
        FormatError: The blob is damaged.
    """
    header, context = decode(blob)
    lines = [
        f"target: {header.soc} (SoC {header.soc_id}, HTP V{header.htp_arch})",
        f"compiled with: Qualcomm AI Engine Direct {header.sdk_build}, onnxruntime-qnn {header.provider}",
        f"graph: {header.graph}",
        f"context binary: {len(context):,} bytes, SHA-256 {bytes(header.context_sha256).hex()}",
    ]
    for kind, tensors in (("input", header.inputs), ("output", header.outputs)):
        for index, tensor in enumerate(tensors):
            scale = f", scale {tensor.scale:.6g}, zero point {tensor.zero_point}" if tensor.scale else ""
            largest = f", finite numbers up to {tensor.largest:g}" if tensor.largest else ""
            lines.append(f"{kind} {index}: {tensor.name}, {tensor.dtype} {list(tensor.dims)}{scale}{largest}")
    return lines


def _check_tensors(header: Header) -> None:
    if not header.outputs:
        raise FormatError("the blob is damaged: the graph has no outputs")
    for tensor in (*header.inputs, *header.outputs):
        if tensor.dtype not in DTYPES or len(tensor.dims) > _MAX_RANK or any(size < 1 for size in tensor.dims):
            raise FormatError(f"the blob is damaged: tensor {tensor.name!r} is {tensor.dtype!r} {list(tensor.dims)}")
        if not 0 <= tensor.largest < inf or (tensor.largest and tensor.dtype != "float32"):
            raise FormatError(f"the blob is damaged: the largest number of tensor {tensor.name!r} is {tensor.largest}")


__all__ = ["CONTEXT_OFFSET", "DTYPES", "MAGIC", "Header", "Tensor", "decode", "describe", "encode"]
