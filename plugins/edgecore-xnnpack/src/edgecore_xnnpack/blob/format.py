"""Write and read a blob, the bytes of a compiled delegate: a header and a flatbuffer (`schema/xnnpack.fbs`).

The header has 30 bytes, padded to 32: u32 0, "XH00", u16 length of the header, u32 offset and u32 size of the
flatbuffer, u32 offset and u64 size of the constant data. The flatbuffer is padded to a multiple of 16 bytes. The
constant data is empty: weights are named data of the `.pte`, with the SHA-256 of their bytes as key, so that equal
weights are stored once.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgecore.plugin import NamedBlob
from edgecore.sdk import ByteReader
from edgecore.sdk.flat import Buffer, pack, unpack
from edgecore_xnnpack.graph.subgraph import (
    TO_LAST,
    Alias,
    DynamicQuantization,
    Layout,
    State,
    Subgraph,
    SubgraphNode,
    SubgraphValue,
    SymbolicSize,
)
from edgecore_xnnpack.schema import graph as g

_HEADER = struct.Struct("<4x4sHIIIQ")
_MAGIC = b"XH00"
_BEFORE_OFFSET = 10
_HEADER_SIZE = 32
_ALIGNMENT = 16


@dataclass
class Encoded:
    """A blob and its named data.

    Attributes:
        blob: The bytes.
        named_data: The constants, by key.
        handles: Maps a node's index in the blob to the debug handles of model nodes.
        dim_orders: Dim orders of node outputs by node index; only outputs that are not in ATen's order have an entry.
    """

    blob: bytes
    named_data: dict[str, NamedBlob] = field(default_factory=dict)
    handles: dict[int | str, tuple[int, ...]] = field(default_factory=dict)
    dim_orders: dict[int | str, tuple[int, ...]] = field(default_factory=dict)


def write_graph(graph: g.Graph) -> bytes:
    """Return the blob of a graph whose constants are stored outside the blob, as named data of the file."""
    flatbuffer = bytes(pack(graph, g.STATE_IDENTIFIER if graph.states else g.IDENTIFIER))
    padded = flatbuffer + bytes(-len(flatbuffer) % _ALIGNMENT)
    header = _HEADER.pack(_MAGIC, _HEADER.size, _HEADER_SIZE, len(padded), _HEADER_SIZE + len(padded), 0)
    return header.ljust(_HEADER_SIZE, b"\0") + padded


def read_graph(blob: Buffer) -> g.Graph:
    """Return the graph of a blob; the blob may lack the header.

    Raises:
        FormatError: The blob is damaged.
    """
    view = memoryview(blob).cast("B")
    if len(view) >= _HEADER.size and view[4:8] == _MAGIC:
        reader = ByteReader(view)
        reader.take(_BEFORE_OFFSET)
        start, size = reader.numbers(2)
        view = reader.part(start, size)
    return unpack(g.Graph, view, g.IDENTIFIERS)


class _Encoder:
    """Writes one blob; `externals` maps the delegate's inputs and outputs to their argument index and XNNPACK flag."""

    def __init__(self, subgraph: Subgraph) -> None:
        self.subgraph = subgraph
        self.externals: dict[SubgraphValue, tuple[int, int]] = {
            value: (index, g.EXTERNAL_INPUT) for index, value in enumerate(subgraph.inputs) if value is not None
        }
        for index, (value, _) in enumerate(subgraph.outputs, len(subgraph.inputs)):
            self.externals[value] = (index, g.EXTERNAL_OUTPUT)
        self.next_id = len(subgraph.inputs) + len(subgraph.outputs)
        self.graph = g.Graph(
            version="0",
            num_externs=self.next_id,
            input_ids=[index for index, value in enumerate(subgraph.inputs) if value is not None],
            output_ids=list(range(len(subgraph.inputs), self.next_id)),
            constant_data=[g.ConstantDataOffset()],
        )
        self.result = Encoded(b"")
        self.ids: dict[SubgraphValue, int] = {}
        self.buffers: dict[str, int] = {}
        self.reading: tuple[int, ...] = ()  # debug handles (ids of the model's nodes) of the operation being written

    def run(self) -> Encoded:
        for value in self.subgraph.inputs:
            if value is not None:
                self.id(value)
        if self.subgraph.states:
            self.graph.states = [self._state(state) for state in self.subgraph.states]
        for op in self.subgraph.nodes:
            if op.kind is Alias and op.output not in self.externals:
                self.ids[op.output] = self.id(op.inputs[0])
            else:
                self._node(op)
        self.result.blob = write_graph(self.graph)
        return self.result

    def _state(self, state: State) -> g.State:
        """Add a state; its initial content, if it is not zero, becomes named data under the name of the buffer."""
        has_initial = bool(state.initial.any())
        if has_initial:
            content = memoryview(state.initial.detach().contiguous().numpy().data).cast("B")
            self.result.named_data[state.name] = NamedBlob(content, _ALIGNMENT)
        return g.State(self.id(state.value), state.name, has_initial)

    def id(self, value: SubgraphValue) -> int:
        """Return the id of a value in the blob; the first request adds the value to the graph."""
        if value in self.ids:
            return self.ids[value]
        external, flags = self.externals.get(value, (g.INVALID_ID, 0))
        number = external
        if external == g.INVALID_ID:
            number, self.next_id = self.next_id, self.next_id + 1
        dims = [int(size) for size in (value.dims if value.constant is None else value.constant.shape)]
        datatype, parameters = self._datatype(value)
        tensor = g.TensorValue(datatype, len(dims), dims, self._buffer(value), external, flags, number)
        self.graph.values.append(g.Value(tensor if parameters is None else g.QuantizedTensorValue(tensor, parameters)))
        self.ids[value] = number
        return number

    def _datatype(self, value: SubgraphValue) -> tuple[g.Datatype, g.QuantParams | None]:
        """Return the element type of a value and, for integers, the quantization parameters."""
        if isinstance(value.quantization, DynamicQuantization):
            return g.Datatype.QDINT8, g.PerTokenDynamicQuant(value.quantization.dims)
        if value.quantization is not None:
            return g.Datatype.QINT8, g.PerTensorQuant(value.quantization.scale, value.quantization.zero_point)
        if value.is_fp16 or (value.constant is not None and value.constant.dtype == np.float16):
            return g.Datatype.FP16, None
        if value.is_index:
            return g.Datatype.INT32, None
        if value.is_position:
            return g.Datatype.INT64, None
        if value.constant is None or value.constant.dtype == np.float32:
            return g.Datatype.FP32, None
        assert value.scales is not None
        is_bias = value.constant.dtype == np.int32
        if value.scales.ndim == 2:
            rows, groups = value.scales.shape
            index = self._store(_bfloat16(value.scales))
            size = value.shape[1] // groups
            return g.Datatype.QBINT4, g.PerChannelGroupQuant([], 0, size, index, rows * groups)
        if value.scales.size == 1 and value.shape[value.channel_dim] != 1:
            return g.Datatype.QINT32 if is_bias else g.Datatype.QINT8, g.PerTensorQuant(float(value.scales[0]), 0)
        parameters = g.PerChannelQuant([float(scale) for scale in value.scales], value.channel_dim)
        if value.bits == 4:
            return g.Datatype.QCINT4, parameters
        return g.Datatype.QCINT32 if is_bias else g.Datatype.QCINT8, parameters

    def _buffer(self, value: SubgraphValue) -> int:
        if value.constant is None:
            return 0
        is_packed = value.bits == 4 and value.constant.dtype == np.int8
        return self._store(_nibbles(value.constant) if is_packed else value.constant)

    def _store(self, array: NDArray[Any]) -> int:
        """Add named data, and return its index in `Graph.constant_data`."""
        data = memoryview(array.data).cast("B")
        digest = hashlib.sha256(data)
        key = digest.hexdigest()
        if key not in self.buffers:
            self.buffers[key] = len(self.graph.constant_data)
            self.graph.constant_data.append(g.ConstantDataOffset(g.NAMED_OFFSET, len(data), key))
            self.result.named_data[key] = NamedBlob(data, _ALIGNMENT, digest.digest(), self.reading)
        return self.buffers[key]

    def _node(self, op: SubgraphNode) -> None:
        kind = g.Copy if op.kind is Alias else op.kind
        self.reading = op.handles
        fields: dict[str, Any] = {
            name: [_size(item) for item in value] if isinstance(value, tuple) else value
            for name, value in op.attributes.items()
        }
        names = _input_fields(kind)
        for name, value in zip(names, op.inputs):
            fields[name] = self.id(value)
        if names[-1] in ("bias_id", "mask_id") and len(op.inputs) < len(names):
            fields[names[-1]] = g.INVALID_ID
        rank = next((len(fields[name]) for name in ("perm", "new_shape", "offsets") if name in fields), None)
        if rank is not None:
            fields["num_dims"] = rank
        index = len(self.graph.nodes)
        limits = None if op.clamp is None else g.OutputMinMax(*op.clamp)
        results = ("output_id",) if op.second is None else ("output_value_id", "output_index_id")
        for name, result in zip(results, (op.output, op.second)):
            if result is not None:
                fields[name] = self.id(result)
        self.graph.nodes.append(g.Node(kind(**fields), index, limits))
        if op.handles:
            self.result.handles[index] = op.handles
            if op.output.layout == Layout.LAST:
                self.result.dim_orders[index] = TO_LAST[len(op.output.shape)]


def _size(number: int) -> int:
    """Return the number that represents a size in the blob.

    A symbolic size is stored as 0: a reshape infers this size, and a slice reads 0 as the whole dimension.
    """
    return 0 if isinstance(number, SymbolicSize) else number


def _nibbles(array: NDArray[np.int8]) -> NDArray[np.uint8]:
    """Add 8 to integers from -8 to 7, and pack two into each byte: the first into the lower four bits."""
    shifted = (array + 8).astype(np.uint8)
    return np.ascontiguousarray(shifted[:, ::2] | shifted[:, 1::2] << 4)


def _bfloat16(scales: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Round positive finite float32 numbers to bf16, to nearest, ties to even.

    A bf16 number is the upper 16 bits of a float32. The sum of the float32's bits, 0x7FFF and bit 16 carries into bit
    16 if the lower 16 bits are above 0x8000 (round up), or equal to 0x8000 while bit 16 is 1 (a tie, rounded to the
    even number). NaN could become an infinity, but scales are finite.
    """
    bits = np.ascontiguousarray(scales, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def _input_fields(kind: type) -> Sequence[str]:
    """List the fields of the node class `kind` that hold the ids of inputs, in the order of the inputs."""
    if issubclass(kind, g._Convolution) or kind is g.FullyConnected:
        return ("input1_id", "filter_id", "bias_id")
    if kind is g.CacheUpdate:
        return ("cache_id", "rows_id", "positions_id")
    if kind is g.ScaledDotProductAttention:
        return ("query_id", "key_id", "value_id", "scale_id", "mask_id")
    names: Sequence[str] = kind.__dataclass_fields__.keys()  # type: ignore[attr-defined]
    return sorted(name for name in names if name.startswith("input") and name.endswith("_id"))


def encode(subgraph: Subgraph) -> Encoded:
    """Write the blob of a subgraph.

    All values of the subgraph must have a layout, its outputs must be distinct, and no input may be an output.
    """
    return _Encoder(subgraph).run()
