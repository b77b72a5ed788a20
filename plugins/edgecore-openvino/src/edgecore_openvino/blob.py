"""The blob that goes into the `.pte`, version 1: a header, then OpenVINO's own bytes. `native/src/blob.cpp` reads the same.

Little-endian numbers of 32 bits:

    magic "OPENVINO"; version; kind; number of inputs, outputs, properties
    input, output: dtype (DLPack's code << 8 | bits), rank, for each dim its least and greatest size
    device:        length and text
    property:      length and text of the key, and of the value
    size of the model

then, each at a multiple of 64 bytes from the start, the model and the weights to the end of the blob. Kind 0, `portable`:
the model is the text of OpenVINO's intermediate representation, the weights are its binary file. Kind 1, `blob`: the model
is what `CompiledModel.export_model` wrote, and there are no weights. The properties are given to OpenVINO again when the
model is compiled or imported: a compiled model does not keep its precision.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import torch

from edgecore.errors import FormatError

MAGIC = b"OPENVINO"
VERSION = 1
MAX_RANK = 8
_ALIGNMENT = 64

_INT, _UINT, _FLOAT, _BOOL = 0, 1, 2, 6
DTYPES: Mapping[torch.dtype, tuple[int, int]] = {
    torch.float32: (_FLOAT, 32), torch.int8: (_INT, 8), torch.uint8: (_UINT, 8), torch.int32: (_INT, 32),
    torch.int64: (_INT, 64), torch.bool: (_BOOL, 8),
}  # fmt: skip
"""DLPack's code and bits."""


class Kind(IntEnum):
    """What the model of a blob is."""

    PORTABLE = 0
    DEVICE = 1


@dataclass(frozen=True)
class Argument:
    """An input or output: its dtype, and the least and greatest size of each dim."""

    dtype: torch.dtype
    sizes: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Payload:
    """What a blob says."""

    kind: Kind
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    device: str
    model: bytes
    weights: bytes = b""
    properties: Mapping[str, str] = field(default_factory=dict)


def encode(payload: Payload) -> bytes:
    """The blob of a payload."""
    counts = (len(payload.inputs), len(payload.outputs), len(payload.properties))
    blob = bytearray(MAGIC + _pack(VERSION, payload.kind, *counts))
    for argument in (*payload.inputs, *payload.outputs):
        code, bits = DTYPES[argument.dtype]
        blob += _pack(code << 8 | bits, len(argument.sizes), *(size for pair in argument.sizes for size in pair))
    for text in (payload.device, *(text for pair in payload.properties.items() for text in pair)):
        blob += _pack(len(text.encode())) + text.encode()
    blob += _pack(len(payload.model))
    for part in (payload.model, payload.weights):
        blob += bytes(-len(blob) % _ALIGNMENT) + part
    return bytes(blob)


def decode(blob: bytes) -> Payload:
    """The payload of a blob; FormatError with a sentence if it is none, or its header is damaged."""
    if blob[: len(MAGIC)] != MAGIC:
        raise FormatError("the blob was not written by edgecore-openvino")
    reader = _Reader(blob, len(MAGIC))
    if (version := reader.number()) != VERSION:
        raise FormatError(f"the blob has version {version} and this edgecore-openvino reads version {VERSION}")
    kind = reader.number()
    if kind >= len(Kind):
        raise FormatError(f"the blob is damaged: a model of kind {kind}")
    inputs, outputs, properties = (reader.count() for _ in range(3))
    if outputs == 0:
        raise FormatError("the blob is damaged: no outputs")
    arguments = [reader.argument() for _ in range(inputs + outputs)]
    device = reader.text()
    pairs = {reader.text(): reader.text() for _ in range(properties)}
    size = reader.number()
    reader.align()
    model = reader.take(size)
    reader.align()
    weights = reader.take(len(blob) - reader.position)
    if kind == Kind.DEVICE and any(least < most for argument in arguments for least, most in argument.sizes):
        raise FormatError("the blob is damaged: a compiled model of sizes that vary")
    return Payload(
        Kind(kind), tuple(arguments[:inputs]), tuple(arguments[inputs:]), device, model, weights, properties=pairs
    )


def _pack(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


class _Reader:
    def __init__(self, blob: bytes, position: int) -> None:
        self.blob = blob
        self.position = position

    def take(self, size: int) -> bytes:
        if size > len(self.blob) - self.position:
            raise FormatError(f"the blob is damaged: its {len(self.blob)} bytes end too early")
        self.position += size
        return self.blob[self.position - size : self.position]

    def number(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def count(self) -> int:
        """A number of records, of 8 bytes at least, that follow."""
        count = self.number()
        if count > len(self.blob) // 8:
            raise FormatError(f"the blob is damaged: {count} records in {len(self.blob)} bytes")
        return count

    def text(self) -> str:
        return self.take(self.number()).decode("utf-8", "replace")

    def align(self) -> None:
        self.take(-self.position % _ALIGNMENT)

    def argument(self) -> Argument:
        dtype, rank = self.number(), self.number()
        known = next((name for name, (code, bits) in DTYPES.items() if code << 8 | bits == dtype), None)
        if known is None or rank > MAX_RANK:
            raise FormatError(f"the blob is damaged: an argument of dtype {dtype} and rank {rank}")
        sizes = tuple((self.number(), self.number()) for _ in range(rank))
        if any(least > greatest for least, greatest in sizes):
            raise FormatError(f"the blob is damaged: an argument of sizes {sizes}")
        return Argument(known, sizes)
