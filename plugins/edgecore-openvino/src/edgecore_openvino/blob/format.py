"""Write and read version 1 of a delegate's blob: a header, then a model and its weights in OpenVINO's format.

`native/src/blob.cpp` reads the same format. All numbers are little-endian and have 32 bits:

    magic "OPENVINO"; version; kind; number of inputs, outputs, properties
    input, output: dtype (DLPack's code << 8 | bits), rank, for each dim its minimum and maximum size
    device:        length and text
    property:      length and text of the key, and of the value
    size of the model

The model and the weights follow, each aligned to 64 bytes from the start of the blob. Kind 0 (`portable`): the model is
the XML text of OpenVINO's intermediate representation, and the weights are its binary file. Kind 1 (`blob`): the model
is the result of `CompiledModel.export_model`, without weights. The delegate passes the properties to OpenVINO when it
compiles or imports the model, since a compiled model does not store its precision.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import torch

from edgecore.errors import FormatError
from edgecore.sdk import ByteReader

MAGIC = b"OPENVINO"
VERSION = 1
MAX_RANK = 8
COMPILED_FOR_CPU = b"RR_UPCVO"
"""First bytes of OpenVINO models that are compiled for the CPU."""
_ALIGNMENT = 64

_INT, _UINT, _FLOAT, _BOOL = 0, 1, 2, 6
DTYPES: Mapping[torch.dtype, tuple[int, int]] = {
    torch.float32: (_FLOAT, 32), torch.int8: (_INT, 8), torch.uint8: (_UINT, 8), torch.int32: (_INT, 32),
    torch.int64: (_INT, 64), torch.bool: (_BOOL, 8), torch.float16: (_FLOAT, 16),
}  # fmt: skip
"""DLPack's type code and number of bits for each dtype."""


class Kind(IntEnum):
    """How a blob holds its model: `PORTABLE` is compiled when the file is loaded, `DEVICE` is compiled for one device.

    `BARE` is a model compiled for the CPU, in a blob without a header, as ExecuTorch's backend writes it. No header
    stores this kind.
    """

    PORTABLE = 0
    DEVICE = 1
    BARE = 2


@dataclass(frozen=True)
class Argument:
    """An input or output of the delegate: dtype, and (minimum, maximum) size of each dim."""

    dtype: torch.dtype
    sizes: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Payload:
    """The content of a blob."""

    kind: Kind
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    device: str
    model: bytes
    weights: bytes = b""
    properties: Mapping[str, str] = field(default_factory=dict)


def encode(payload: Payload) -> bytes:
    """Write a payload into a blob: its header, then the model and the weights."""
    if payload.kind == Kind.BARE:
        return payload.model
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
    """Return the content of a blob; a blob without a header consists only of a model compiled for the CPU.

    Raises:
        FormatError: The bytes are not a blob of this version, or the header is damaged.
    """
    if blob.startswith(COMPILED_FOR_CPU):
        return Payload(Kind.BARE, (), (), "CPU", blob)
    reader = ByteReader(blob)
    reader.header(MAGIC, VERSION, "edgecore-openvino")
    kind = reader.number()
    if kind not in (Kind.PORTABLE, Kind.DEVICE):
        raise FormatError(f"the blob is damaged: it has a model of the unknown kind {kind}")
    inputs, outputs, properties = (reader.count(8) for _ in range(3))
    if outputs == 0:
        raise FormatError("the blob is damaged: it has no outputs")
    arguments = [_argument(reader) for _ in range(inputs + outputs)]
    device = reader.text()
    pairs = {reader.text(): reader.text() for _ in range(properties)}
    size = reader.number()
    reader.align(_ALIGNMENT)
    model = reader.take(size)
    reader.align(_ALIGNMENT)
    weights = reader.take(reader.left)
    if kind == Kind.DEVICE and any(lower < upper for argument in arguments for lower, upper in argument.sizes):
        raise FormatError("the blob is damaged: it has a compiled model with symbolic sizes")
    return Payload(
        Kind(kind), tuple(arguments[:inputs]), tuple(arguments[inputs:]), device, model, weights, properties=pairs
    )


def _pack(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


def _argument(reader: ByteReader) -> Argument:
    dtype, rank = reader.numbers(2)
    torch_dtype = next((name for name, (code, bits) in DTYPES.items() if code << 8 | bits == dtype), None)
    if torch_dtype is None or rank > MAX_RANK:
        raise FormatError(f"the blob is damaged: an argument has the dtype {dtype:#x} and rank {rank}")
    sizes = tuple((reader.number(), reader.number()) for _ in range(rank))
    if any(lower > upper for lower, upper in sizes):
        raise FormatError(f"the blob is damaged: an argument has a minimum above a maximum size: {sizes}")
    return Argument(torch_dtype, sizes)
