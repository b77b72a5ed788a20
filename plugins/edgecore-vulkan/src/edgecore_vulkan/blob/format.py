"""Write and read a blob: a header and a flatbuffer in the layout of ExecuTorch's Vulkan delegate.

The header of the blob has 30 bytes, padded to 32: u32 0, "VH00", u16 length of the header, u32 offset and u32 size of
the flatbuffer, u32 offset and u64 size of the constant data. Flatbuffer and constant data are padded to multiples of 16
bytes. The constant data is empty: constants are named data of the `.pte`. The key is the SHA-256 of the bytes, so the
file stores equal constants once.
"""

from __future__ import annotations

import struct

from edgecore.errors import FormatError
from edgecore.sdk import ByteReader
from edgecore.sdk.flat import Buffer, pack, unpack
from edgecore_vulkan.schema import graph as s

_HEADER = struct.Struct("<4x4sHIIIQ")
_MAGIC = b"VH00"
_BEFORE_MAGIC = 4
_HEADER_SIZE = 32
ALIGNMENT = 16


def write_graph(graph: s.Graph) -> bytes:
    """Return the blob of a graph whose constants are named data of the `.pte`."""
    flatbuffer = bytes(pack(graph, s.IDENTIFIER))
    padded = flatbuffer + bytes(-len(flatbuffer) % ALIGNMENT)
    header = _HEADER.pack(_MAGIC, _HEADER.size, _HEADER_SIZE, len(flatbuffer), _HEADER_SIZE + len(padded), 0)
    return header.ljust(_HEADER_SIZE, b"\0") + padded


def read_graph(blob: Buffer) -> s.Graph:
    """Read the graph of a blob, and check its ids and lengths.

    Raises:
        FormatError: The blob is damaged, or is not the blob of a Vulkan delegate.
    """
    view = memoryview(blob).cast("B")
    reader = ByteReader(view)
    reader.take(_BEFORE_MAGIC)
    if reader.take(len(_MAGIC)) != _MAGIC:
        raise FormatError(f"the blob is not one of a Vulkan delegate: {_MAGIC.decode()} is missing")
    if reader.number(2) != _HEADER.size:
        raise FormatError("the blob is damaged: its header has another length")
    start, size, data_start, data_size = *reader.numbers(3), reader.number(8)
    flatbuffer = reader.part(start, size)
    reader.part(data_start, data_size)
    graph: s.Graph = unpack(s.Graph, flatbuffer, s.IDENTIFIER)
    _check(graph, data_size)
    return graph


def _check(graph: s.Graph, data_size: int) -> None:
    """Check rules that the schema cannot express: ids refer to values, and the bytes of constants are complete."""
    count = len(graph.values)
    for index, entry in enumerate(graph.values):
        value = entry.value
        if value is None:
            raise FormatError(f"the blob is damaged: value {index} is empty")
        if isinstance(value, s.ValueList):
            _check_ids(value.items, count, f"value {index}")
            if any(isinstance(graph.values[item].value, s.ValueList) for item in value.items):
                raise FormatError(f"the blob is damaged: value {index} is a list of lists")
        if isinstance(value, s.VkTensor):
            if value.constant_id >= len(graph.constants):
                raise FormatError(f"the blob is damaged: value {index} reads constant {value.constant_id}")
            if value.datatype == s.DataType.UNSET:
                raise FormatError(f"the blob is damaged: value {index} has no dtype")
    for index, call in enumerate(graph.chain):
        _check_ids(call.args, count, f"call {index} ({call.name})")
        if not call.args:
            raise FormatError(f"the blob is damaged: call {index} ({call.name}) has no arguments")
    for kind, ids in (("inputs", graph.input_ids), ("outputs", graph.output_ids)):
        _check_ids(ids, count, f"the list of {kind}")
        for number in ids:
            if not isinstance(graph.values[number].value, (s.VkTensor, s.SymInt)):
                raise FormatError(f"the blob is damaged: value {number} among the {kind} is no tensor")
    for index, constant in enumerate(graph.constants):
        is_named = constant.offset == s.NAMED_OFFSET
        if is_named != bool(constant.named_key) or (not is_named and constant.offset + constant.length > data_size):
            raise FormatError(f"the blob is damaged: constant {index} has no bytes")


def _check_ids(ids: list[int], count: int, kind: str) -> None:
    for number in ids:
        if not 0 <= number < count:
            raise FormatError(f"the blob is damaged: {kind} names value {number} of {count}")
