"""Write and read the blob of an Ethos-U delegate, in the format that ExecuTorch's delegate reads on a device.

The blob is a sequence of blocks. A block has a 32-byte header: a name of 16 bytes padded with zeros, the u32 length of
the data, a byte that is 1 if the data is stored elsewhere, and 11 zeros. The data follows, padded with zeros to a
multiple of 16 bytes. The blocks are, in order:

    vela_bin_stream   no data
    cmd_data          the command stream of the NPU, for Arm's driver
    weight_data       read-only data: weights and scales as the NPU reads them
    scratch_size      u32: bytes of the arena, for inputs, outputs and intermediate values
    inputs, outputs   i32 number of tensors; for each 9 i32: 6 sizes of its shape, bytes per element, offset, region
    vela_end_stream   no data

`native/src/blob.cpp` reads the format in C++. The TOSA graph that the blob was compiled from is not part of the blob,
but named data of the `.pte` with the key `tosa_key(blob)`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod

from edgecore.errors import CompileError, FormatError
from edgecore.sdk import ByteReader

NAMES = ("vela_bin_stream", "cmd_data", "weight_data", "scratch_size", "inputs", "outputs", "vela_end_stream")
_HEADER = struct.Struct("<16sIB11s")
_ALIGNMENT = 16
_RANK = 6
_TENSOR = struct.Struct("<9i")
_MAX_SCRATCH = 2**31 - 1
_ELEMENT_SIZES = (1, 2, 4, 8)
_COMMAND_MAGIC = b"COP1"

_FNV_OFFSET, _FNV_PRIME, _WORD_MASK = 0xCBF29CE484222325, 0x100000001B3, 0xFFFFFFFFFFFFFFFF
_HALF_WORD = 32


@dataclass(frozen=True)
class VelaTensor:
    """An input or output of the NPU's command stream.

    Attributes:
        shape: Six sizes, with leading 1s for missing dims.
        element_size: Bytes per element.
        offset: Bytes from the start of the tensor's memory region.
        region: Number of the region; 1 is the arena.
    """

    shape: tuple[int, ...]
    element_size: int
    offset: int
    region: int

    @property
    def size(self) -> int:
        """Size in bytes."""
        return prod(self.shape) * self.element_size


@dataclass(frozen=True)
class VelaProgram:
    """A TOSA graph as compiled by Vela: the command stream, weights, arena size, inputs and outputs of a blob."""

    command_stream: bytes
    weights: bytes
    scratch_size: int
    inputs: tuple[VelaTensor, ...]
    outputs: tuple[VelaTensor, ...]


def write_blob(program: VelaProgram) -> bytes:
    """Return the blob of a compiled TOSA graph.

    Raises:
        CompileError: The arena has more than 2^31 - 1 bytes, the limit of the format.
    """
    if program.scratch_size > _MAX_SCRATCH:
        raise CompileError(
            f"the model needs an arena of {program.scratch_size:,} bytes and a delegate can have at most "
            f"{_MAX_SCRATCH:,}: use smaller inputs"
        )
    data = (
        b"",
        program.command_stream,
        program.weights,
        struct.pack("<I", program.scratch_size),
        _packed(program.inputs),
        _packed(program.outputs),
        b"",
    )
    blocks = bytearray()
    for name, content in zip(NAMES, data, strict=True):
        blocks += _HEADER.pack(name.encode(), len(content), 0, b"") + content
        blocks += bytes(-len(content) % _ALIGNMENT)
    return bytes(blocks)


def read_blob(blob: bytes) -> VelaProgram:
    """Parse a blob, and check its numbers; the content of command stream and weights is not checked.

    Raises:
        FormatError: The blob is damaged, or is not the blob of an Ethos-U delegate.
    """
    reader = ByteReader(blob)
    _, commands, weights, scratch, inputs, outputs, _ = [_block(reader, name) for name in NAMES]
    reader.finish()
    if commands[: len(_COMMAND_MAGIC)] != _COMMAND_MAGIC or len(commands) % 4:
        raise FormatError("the blob is damaged: cmd_data is no command stream of an Ethos-U")
    if len(scratch) != struct.calcsize("<I"):
        raise FormatError(f"the blob is damaged: scratch_size has {len(scratch)} bytes instead of 4")
    size = int.from_bytes(scratch, "little")
    if size > _MAX_SCRATCH:
        raise FormatError(f"the blob is damaged: its arena has {size} bytes")
    return VelaProgram(commands, weights, size, _tensors(inputs, "input", size), _tensors(outputs, "output", size))


def describe_blob(blob: bytes) -> list[str]:
    """Describe a blob in lines: bytes of its command stream, weights and arena, and its inputs and outputs.

    Raises:
        FormatError: The blob is damaged.
    """
    program = read_blob(blob)
    lines = [
        f"command stream: {len(program.command_stream):,} bytes",
        f"weights: {len(program.weights):,} bytes",
        f"arena: {program.scratch_size:,} bytes",
    ]
    for kind, tensors in (("input", program.inputs), ("output", program.outputs)):
        for index, tensor in enumerate(tensors):
            shape = "x".join(map(str, tensor.shape))
            place = f"offset {tensor.offset:,} of region {tensor.region}"
            lines.append(f"{kind} {index}: {shape}, {tensor.element_size} bytes an element, at {place}")
    return lines


def tosa_key(blob: bytes) -> str:
    """Return the key of the `.pte`'s named data that holds the TOSA graph from which a blob was compiled.

    The key contains a hash of the blob: a variant of FNV-1a over 64-bit words. After each word, it also XORs the upper
    half of the state into the lower half. FNV-1a over bytes would take a second per 4 MB in Python.

    Raises:
        FormatError: The blob is truncated: its size must be a multiple of 8 bytes.
    """
    if len(blob) % struct.calcsize("<Q"):
        raise FormatError(f"the blob is damaged: its {len(blob):,} bytes are no whole number of blocks")
    total = _FNV_OFFSET
    for (word,) in struct.iter_unpack("<Q", blob):
        total = (total ^ word) * _FNV_PRIME & _WORD_MASK
        total ^= total >> _HALF_WORD
    return f"ethosu-tosa-{total:016x}"


def _packed(tensors: tuple[VelaTensor, ...]) -> bytes:
    packed = struct.pack("<i", len(tensors))
    for tensor in tensors:
        packed += _TENSOR.pack(*tensor.shape, tensor.element_size, tensor.offset, tensor.region)
    return packed


def _block(reader: ByteReader, name: str) -> bytes:
    stored, size, is_elsewhere, reserved = _HEADER.unpack(reader.take(_HEADER.size))
    if stored != name.encode().ljust(len(stored), b"\0"):
        if name == NAMES[0]:
            raise FormatError("the blob was not written for an Ethos-U delegate: vela_bin_stream is missing")
        raise FormatError(f"the blob is damaged: a block {stored!r} is where {name} must be")
    if is_elsewhere == 1:
        raise FormatError(f"the data of the block {name} is outside the blob, which edgecore-ethosu does not support")
    if is_elsewhere or any(reserved):
        raise FormatError(f"the blob is damaged: the header of the block {name} has unknown flags")
    data = reader.take(size)
    if any(reader.take(-size % _ALIGNMENT)):
        raise FormatError(f"the blob is damaged: the bytes after the block {name} are not zeros")
    if name in (NAMES[0], NAMES[-1]) and data:
        raise FormatError(f"the blob is damaged: the block {name} has {size} bytes instead of none")
    return data


def _tensors(data: bytes, kind: str, scratch_size: int) -> tuple[VelaTensor, ...]:
    reader = ByteReader(data)
    count = reader.count(_TENSOR.size)
    tensors = []
    for index in range(count):
        numbers = _TENSOR.unpack(reader.take(_TENSOR.size))
        tensor = VelaTensor(numbers[:_RANK], *numbers[_RANK:])
        if min(tensor.shape) < 1 or tensor.element_size not in _ELEMENT_SIZES:
            raise FormatError(
                f"the blob is damaged: {kind} {index} has the shape {list(tensor.shape)} of elements of "
                f"{tensor.element_size} bytes"
            )
        if tensor.region < 0 or tensor.offset < 0 or tensor.offset + tensor.size > scratch_size:
            raise FormatError(f"the blob is damaged: {kind} {index} lies outside the arena of {scratch_size} bytes")
        tensors.append(tensor)
    reader.finish()
    return tuple(tensors)
