"""Represent TOSA graphs in memory, and read and write them as flatbuffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from edgecore.errors import FormatError
from edgecore.sdk import flat
from edgecore_tosa.schema import (
    ALIGNMENT,
    ATTRIBUTES,
    IDENTIFIER,
    DType,
    Op,
    TosaBasicBlock,
    TosaGraph,
    TosaOperator,
    TosaRegion,
    TosaShape,
    TosaTensor,
    Version,
)

Array = npt.NDArray[Any]

NUMPY: dict[DType, np.dtype[Any]] = {
    DType.BOOL: np.dtype(np.bool_),
    DType.INT4: np.dtype(np.int8),
    DType.INT8: np.dtype(np.int8),
    DType.INT16: np.dtype(np.int16),
    DType.INT32: np.dtype(np.int32),
    DType.INT48: np.dtype(np.int64),
    DType.FP32: np.dtype(np.float32),
    DType.FP16: np.dtype(np.float16),
    DType.BF16: np.dtype(np.uint16),
    DType.SHAPE: np.dtype(np.int64),
}
"""The dtype of the numpy array that holds a tensor of each type; bfloat16 numbers are held as their bits."""


@dataclass(eq=False)
class Tensor:
    """A value of a TOSA graph: a tensor, or a list of sizes (DType.SHAPE).

    Attributes:
        shape: The sizes of the dims; (n,) for a list of n sizes.
        dtype: The type of the elements.
        data: The elements of a constant as an array of `shape`; None if an operator computes them.
        name: The name in the serialized graph, such as "t37", which `Graph.to_bytes` sets.
    """

    shape: tuple[int, ...]
    dtype: DType
    data: Array | None = None
    name: str = ""

    @property
    def rank(self) -> int:
        """The number of dims."""
        return len(self.shape)

    @property
    def elements(self) -> int:
        """The number of elements."""
        return prod(self.shape)


@dataclass(eq=False)
class Operator:
    """An operator in a TOSA graph, with its inputs, attribute and output.

    Attributes:
        op: The operator.
        attribute: The constant arguments, an instance of the class in `schema.ATTRIBUTES`.
        inputs: The tensors that the operator reads, including constants, in the order of TOSA's specification.
        output: The tensor of the result.
        source: The fx node from which this operator was made.
        others: Further fx nodes that this operator also computes, such as quantize nodes.
    """

    op: Op
    attribute: Any
    inputs: list[Tensor]
    output: Tensor
    source: Any = None
    others: list[Any] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The operator and its result, such as `CONV2D t37`; unique after `Graph.to_bytes`, which names results."""
        return f"{self.op.name} {self.output.name}"


@dataclass(eq=False)
class Graph:
    """A TOSA graph: operators in an executable order. Constants are tensors here, and CONST operators in the file."""

    inputs: list[Tensor] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)

    def constants(self) -> list[Tensor]:
        """List the constants that operators or outputs of the graph read, each once."""
        read = [*(tensor for operator in self.operators for tensor in operator.inputs), *self.outputs]
        return list(dict.fromkeys(tensor for tensor in read if tensor.data is not None))

    def remove_unread(self) -> None:
        """Remove the operators whose results neither an operator nor an output reads."""
        read = set(self.outputs)
        kept = []
        for operator in reversed(self.operators):
            if operator.output in read:
                kept.append(operator)
                read.update(operator.inputs)
        self.operators = kept[::-1]

    def numbered(self) -> dict[int, Operator]:
        """Map indices in the serialized graph, which begins with an operator per constant, to the operators."""
        return dict(enumerate(self.operators, len(self.constants())))

    def to_bytes(self) -> bytes:
        """Write the graph as a flatbuffer of TOSA 1.0.0. Equal graphs give equal bytes."""
        constants = self.constants()
        for number, tensor in enumerate(_tensors(self, constants)):
            tensor.name = f"t{number}"
        block = TosaBasicBlock(
            name="main",
            inputs=[tensor.name for tensor in self.inputs],
            outputs=[tensor.name for tensor in self.outputs],
        )
        for tensor in constants:
            op = Op.CONST_SHAPE if tensor.dtype == DType.SHAPE else Op.CONST
            block.operators.append(TosaOperator(op, ATTRIBUTES[op](), [], [tensor.name]))
        for operator in self.operators:
            block.operators.append(
                TosaOperator(operator.op, operator.attribute, [t.name for t in operator.inputs], [operator.output.name])
            )
        for tensor in _tensors(self, constants):
            data = None if tensor.data is None else encode(tensor.data, tensor.dtype)
            if tensor.dtype == DType.SHAPE:
                block.shapes.append(TosaShape(tensor.name, tensor.elements, data))
            else:
                block.tensors.append(TosaTensor(tensor.name, list(tensor.shape), tensor.dtype, data))
        root = TosaGraph(Version(1, 0, 0, False), [TosaRegion("main", [block])])
        return bytes(flat.pack(root, IDENTIFIER))

    @classmethod
    def from_bytes(cls, data: flat.Buffer) -> Graph:
        """Read a TOSA graph from a flatbuffer of TOSA 1.x with one region of one block, that is, without control flow.

        Raises:
            FormatError: The bytes are damaged, of another version, or have several regions or blocks.
        """
        root = flat.unpack(TosaGraph, data, IDENTIFIER)
        version = root.version
        if version is None or version.major != 1:
            raise FormatError(f"TOSA version {'none' if version is None else version.major}: only version 1 is known")
        if len(root.regions) != 1 or len(root.regions[0].blocks) != 1:
            raise FormatError("a TOSA graph with control flow: only graphs of one region and one block are known")
        return _read(root.regions[0].blocks[0])


def _tensors(graph: Graph, constants: Sequence[Tensor]) -> Iterator[Tensor]:
    yield from graph.inputs
    yield from constants
    for operator in graph.operators:
        yield operator.output


def _read(block: TosaBasicBlock) -> Graph:
    tensors: dict[str, Tensor] = {}
    for stored in block.tensors:
        shape = tuple(stored.shape)
        if any(size < 0 for size in shape):
            raise FormatError(f"the tensor {stored.name} has a negative size")
        data = decode(stored.data, stored.type, shape, stored.name) if stored.data else None
        tensors[stored.name] = Tensor(shape, stored.type, data, stored.name)
    for sizes in block.shapes:
        data = decode(sizes.data or b"", DType.SHAPE, (sizes.rank,), sizes.name)
        tensors[sizes.name] = Tensor((sizes.rank,), DType.SHAPE, data, sizes.name)

    def find(name: str) -> Tensor:
        if name not in tensors:
            raise FormatError(f"no tensor {name!r} in the TOSA graph")
        return tensors[name]

    graph = Graph([find(name) for name in block.inputs], [], [find(name) for name in block.outputs])
    for operator in block.operators:
        if operator.op not in ATTRIBUTES:
            raise FormatError(f"operator number {operator.op} is not known")
        op = Op(operator.op)
        if not isinstance(operator.attribute, ATTRIBUTES[op]):
            raise FormatError(f"{op.name} has the attribute of another operator")
        if len(operator.outputs) != 1:
            raise FormatError(f"{op.name} has {len(operator.outputs)} results, not one")
        output = find(operator.outputs[0])
        if op in (Op.CONST, Op.CONST_SHAPE):
            if output.data is None:
                raise FormatError(f"the constant {output.name} has no data")
            continue
        graph.operators.append(Operator(op, operator.attribute, [find(name) for name in operator.inputs], output))
    return graph


def encode(array: Array, dtype: DType) -> bytes:
    """Return the elements of a constant as bytes, padded with zeros to a multiple of `ALIGNMENT`.

    A byte holds two int4 numbers, the first in its lower half. An int48 number has six bytes.
    """
    if dtype == DType.INT4:
        flat_array = array.reshape(-1).astype(np.uint8) & 15
        if flat_array.size % 2:
            flat_array = np.append(flat_array, np.uint8(0))
        data = (flat_array[::2] | flat_array[1::2] << 4).tobytes()
    elif dtype == DType.INT48:
        data = array.astype("<i8").reshape(-1, 1).view(np.uint8)[:, :6].tobytes()
    else:
        data = np.ascontiguousarray(array, NUMPY[dtype].newbyteorder("<")).tobytes()
    return data + bytes(-len(data) % ALIGNMENT)


def decode(data: flat.Buffer, dtype: DType, shape: tuple[int, ...], name: str = "") -> Array:
    """Decode the bytes of a constant to an array.

    Raises:
        FormatError: The bytes are too few for the elements, or the dtype is not known.
    """
    if dtype not in NUMPY:
        raise FormatError(f"the constant {name} has no known dtype")
    count = prod(shape)
    bits = {DType.INT4: 4, DType.INT48: 48}.get(dtype, 8 * NUMPY[dtype].itemsize)
    needed = -(-count * bits // 8)
    if len(data) < needed:
        raise FormatError(f"the constant {name} has {len(data)} bytes instead of {needed}")
    raw = np.frombuffer(data, np.uint8, needed)
    if dtype == DType.INT4:
        halves = np.stack([raw & 15, raw >> 4], axis=1).reshape(-1)[:count].astype(np.int8)
        array = np.where(halves > 7, halves - 16, halves).astype(np.int8)
    elif dtype == DType.INT48:
        wide = np.zeros((count, 8), np.uint8)
        wide[:, :6] = raw.reshape(count, 6)
        wide[:, 6:] = np.where(wide[:, 5:6] > 127, 255, 0)
        array = wide.view("<i8").reshape(-1)
    else:
        array = raw.view(NUMPY[dtype].newbyteorder("<"))
    return array.reshape(shape)
