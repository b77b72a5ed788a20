"""The flatbuffer tables of a blob as dataclasses, in the format of ExecuTorch 1.5's Vulkan delegate.

A graph has values and a sequence of operator calls. A call has the name of the operator and the ids of its arguments,
in the order of the operator's schema, followed by the ids of its outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from edgecore.sdk.flat import scalar, string, tables, union, vector

IDENTIFIER = b"VK00"
NAMED_OFFSET = 2**64 - 1
"""Offset that marks a constant in the `.pte`'s named data, outside the blob."""


class DataType(IntEnum):
    """Element types. Tensors of `INT64` and `FLOAT64` are stored as `INT32` and `FLOAT32`."""

    BOOL = 0
    UINT8 = 1
    INT8 = 2
    INT32 = 3
    FLOAT16 = 4
    FLOAT32 = 5
    FLOAT64 = 6
    INT64 = 7
    UNSET = 127


class Storage(IntEnum):
    """Kinds of memory for tensors."""

    BUFFER = 0
    TEXTURE_3D = 1
    TEXTURE_2D = 2
    DEFAULT = 255


class Layout(IntEnum):
    """Orders of a tensor's elements, named after the packed dim: four adjacent indices of this dim form a vector."""

    WIDTH_PACKED = 0
    HEIGHT_PACKED = 1
    CHANNELS_PACKED = 2
    INT8_4W4C = 3
    INT8_4H4W = 4
    INT8_4W = 5
    INT8_4C = 6
    INT8_4C1W = 8
    INT8_CONV2D = 9
    DEFAULT = 255


@dataclass(slots=True)
class OperatorCall:
    """A call; `node_id` is its number in debug maps and profiles."""

    node_id: int = scalar(0, "u32")
    name: str = string(1)
    args: list[int] = vector(2, "i32")


@dataclass(slots=True)
class VkTensor:
    """A tensor with its maximum sizes. A negative `constant_id` or `mem_obj_id` means none."""

    datatype: DataType = scalar(0, "i8", enum=DataType)
    dims: list[int] = vector(1, "u32")
    constant_id: int = scalar(2, "i32")
    mem_obj_id: int = scalar(3, "i32")
    storage_type: Storage = scalar(4, "u8", Storage.DEFAULT, enum=Storage)
    memory_layout: Layout = scalar(5, "u8", Layout.DEFAULT, enum=Layout)
    staging_datatype: DataType = scalar(6, "i8", DataType.UNSET, enum=DataType)


@dataclass(slots=True)
class Null:
    """An absent argument, or one that the delegate does not need, such as a dtype."""


@dataclass(slots=True)
class Int:
    """An integer."""

    int_val: int = scalar(0, "i64")


@dataclass(slots=True)
class Double:
    """A floating-point number."""

    double_val: float = scalar(0, "f64")


@dataclass(slots=True)
class Bool:
    """A boolean."""

    bool_val: bool = scalar(0, "bool")


@dataclass(slots=True)
class String:
    """A string."""

    string_val: str = string(0)


@dataclass(slots=True)
class IntList:
    """A list of integers."""

    items: list[int] = vector(0, "i64")


@dataclass(slots=True)
class DoubleList:
    """A list of floating-point numbers."""

    items: list[float] = vector(0, "f64")


@dataclass(slots=True)
class BoolList:
    """A list of booleans."""

    items: list[bool] = vector(0, "bool")


@dataclass(slots=True)
class ValueList:
    """A list of value ids: tensors, or sizes that may be symbolic."""

    items: list[int] = vector(0, "i32")


@dataclass(slots=True)
class SymInt:
    """An integer that is only known when the graph runs."""

    value: int = scalar(0, "i32")


@dataclass(slots=True)
class Value:
    """A value; its id is its index in the graph's list of values."""

    value: (
        Null | Int | Double | Bool | VkTensor | IntList | DoubleList | BoolList | ValueList | String | SymInt | None
    ) = union(
        0,
        {
            1: Null,
            2: Int,
            3: Double,
            4: Bool,
            5: VkTensor,
            6: IntList,
            7: DoubleList,
            8: BoolList,
            9: ValueList,
            10: String,
            11: SymInt,
        },
    )


@dataclass(slots=True)
class Bytes:
    """Location of bytes outside the flatbuffer: in the blob's constant data, or in the named data with a key."""

    offset: int = scalar(0, "u64")
    length: int = scalar(1, "u64")
    named_key: str = string(2)


@dataclass(slots=True)
class Graph:
    """The content of a blob."""

    version: str = string(0)
    chain: list[OperatorCall] = tables(1, OperatorCall)
    values: list[Value] = tables(2, Value)
    input_ids: list[int] = vector(3, "u32")
    output_ids: list[int] = vector(4, "u32")
    constants: list[Bytes] = tables(5, Bytes)
    shaders: list[Bytes] = tables(6, Bytes)
    storage_type_override: Storage = scalar(7, "u8", Storage.DEFAULT, enum=Storage)
    memory_layout_override: Layout = scalar(8, "u8", Layout.DEFAULT, enum=Layout)
