"""The tables of a program (flatbuffer identifier ET12) as dataclasses; `schema/program.fbs` defines the same tables.

Tables refer to each other by index: to a value, operator or delegate by its index in the `ExecutionPlan`'s list, to an
instruction by its index in the list of the `Chain`. Arena and segment sizes are in bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from math import prod
from typing import get_args

from .dtypes import SCALAR_TYPE_SIZES, ScalarType
from .flat import Buffer, data, scalar, string, table, tables, union, vector

PROGRAM_IDENTIFIER = b"ET12"


class TensorShapeDynamism(IntEnum):
    STATIC = 0
    DYNAMIC_BOUND = 1
    DYNAMIC_UNBOUND = 2


class TensorDataLocation(IntEnum):
    SEGMENT = 0
    EXTERNAL = 1


class DataLocation(IntEnum):
    INLINE = 0
    SEGMENT = 1


class DeviceType(IntEnum):
    CPU = 0
    CUDA = 1


@dataclass(slots=True)
class ContainerMetadata:
    encoded_inp_str: str = string(0)
    encoded_out_str: str = string(1)


@dataclass(slots=True)
class AllocationDetails:
    """The memory of a tensor: the arena (`memory_id`, from 1), and the offset in bytes as two 32-bit numbers."""

    memory_id: int = scalar(0, "u32")
    memory_offset_low: int = scalar(1, "u32")
    memory_offset_high: int = scalar(2, "u32")

    @classmethod
    def at(cls, memory_id: int, offset: int) -> AllocationDetails:
        return cls(memory_id, offset & 0xFFFFFFFF, offset >> 32)

    @property
    def offset(self) -> int:
        return self.memory_offset_low | self.memory_offset_high << 32


@dataclass(slots=True)
class ExtraTensorInfo:
    mutable_data_segments_idx: int = scalar(0, "u64")
    fully_qualified_name: str | None = string(1, optional=True)
    location: TensorDataLocation = scalar(2, "i8", enum=TensorDataLocation)
    device_type: DeviceType = scalar(3, "i8", enum=DeviceType)
    device_index: int = scalar(4, "i8")


@dataclass(slots=True)
class Null:
    pass


@dataclass(slots=True)
class Int:
    int_val: int = scalar(0, "i64")


@dataclass(slots=True)
class Bool:
    bool_val: bool = scalar(0, "bool")


@dataclass(slots=True)
class Double:
    double_val: float = scalar(0, "f64")


@dataclass(slots=True)
class String:
    string_val: str = string(0)


@dataclass(slots=True)
class Tensor:
    """A tensor value.

    With `data_buffer_idx` > 0 it has initial data: without `allocation_info` it is a constant, otherwise a mutable
    buffer.
    """

    scalar_type: ScalarType = scalar(0, "i8", enum=ScalarType)
    storage_offset: int = scalar(1, "i32")
    sizes: list[int] = vector(2, "i32")
    dim_order: list[int] = vector(3, "u8")
    requires_grad: bool = scalar(4, "bool")
    data_buffer_idx: int = scalar(5, "u32")
    allocation_info: AllocationDetails | None = table(6, AllocationDetails)
    layout: int = scalar(7, "i8")
    shape_dynamism: TensorShapeDynamism = scalar(8, "i8", enum=TensorShapeDynamism)
    extra_tensor_info: ExtraTensorInfo | None = table(9, ExtraTensorInfo)

    @property
    def nbytes(self) -> int:
        """Size in bytes for the largest shape."""
        return prod(self.sizes) * SCALAR_TYPE_SIZES[self.scalar_type]


@dataclass(slots=True)
class IntList:
    """A list of integers; `items` are indices of Int values."""

    items: list[int] = vector(0, "i64")


@dataclass(slots=True)
class DoubleList:
    items: list[float] = vector(0, "f64")


@dataclass(slots=True)
class BoolList:
    items: list[bool] = vector(0, "bool")


@dataclass(slots=True)
class TensorList:
    """A list of tensors; `items` are indices of Tensor values."""

    items: list[int] = vector(0, "i32")


@dataclass(slots=True)
class OptionalTensorList:
    """A list of tensors and Nones; `items` are indices of Tensor values, or -1 for None."""

    items: list[int] = vector(0, "i32")


KernelTypes = (
    Null | Int | Bool | Double | Tensor | String | IntList | DoubleList | BoolList | TensorList | OptionalTensorList
)
_KERNEL_TYPES: dict[int, type] = dict(enumerate(get_args(KernelTypes), 1))


@dataclass(slots=True)
class EValue:
    val: KernelTypes | None = union(0, _KERNEL_TYPES)


@dataclass(slots=True)
class Operator:
    """An operator: `name` such as "aten::add", `overload` such as "out" (may be empty)."""

    name: str = string(0)
    overload: str = string(1)

    @property
    def key(self) -> str:
        return f"{self.name}.{self.overload}" if self.overload else self.name


@dataclass(slots=True)
class KernelCall:
    """A call of a kernel.

    `args` are indices of values: the arguments of the operator's schema, then the results that the kernel writes, then
    the return value: the result once more, or a list of the results if there are several.
    """

    op_index: int = scalar(0, "i32")
    args: list[int] = vector(1, "i32")


@dataclass(slots=True)
class DelegateCall:
    """A call of a delegate; `args` are the indices of its input values, then of its output values."""

    delegate_index: int = scalar(0, "i32")
    args: list[int] = vector(1, "i32")


@dataclass(slots=True)
class MoveCall:
    move_from: int = scalar(0, "i32")
    move_to: int = scalar(1, "i32")


@dataclass(slots=True)
class JumpFalseCall:
    cond_value_index: int = scalar(0, "i32")
    destination_instruction: int = scalar(1, "i32")


@dataclass(slots=True)
class FreeCall:
    value_index: int = scalar(0, "i32")


InstructionArguments = KernelCall | DelegateCall | MoveCall | JumpFalseCall | FreeCall
_INSTRUCTION_ARGUMENTS: dict[int, type] = dict(enumerate(get_args(InstructionArguments), 1))


@dataclass(slots=True)
class Instruction:
    instr_args: InstructionArguments | None = union(0, _INSTRUCTION_ARGUMENTS)


@dataclass(slots=True)
class Frame:
    filename: str = string(0)
    lineno: int = scalar(1, "i32")
    name: str = string(2)
    context: str = string(3)


@dataclass(slots=True)
class FrameList:
    items: list[Frame] = tables(0, Frame)


@dataclass(slots=True)
class Chain:
    inputs: list[int] = vector(0, "i32")
    outputs: list[int] = vector(1, "i32")
    instructions: list[Instruction] = tables(2, Instruction)
    stacktrace: list[FrameList] | None = tables(3, FrameList, optional=True)


@dataclass(slots=True)
class BackendDelegateDataReference:
    location: DataLocation = scalar(0, "i8", enum=DataLocation)
    index: int = scalar(1, "u32")


@dataclass(slots=True)
class CompileSpec:
    key: str = string(0)
    value: Buffer = data(1)


@dataclass(slots=True)
class BackendDelegate:
    """A delegate of a method.

    In a `PteFile`, `processed.index` is an index in `PteFile.delegate_blobs`, and `processed.location` is unused. In a
    file, `location` decides whether `index` refers to segments or to entries of `backend_delegate_data`.
    """

    id: str = string(0)
    processed: BackendDelegateDataReference | None = table(1, BackendDelegateDataReference)
    compile_specs: list[CompileSpec] = tables(2, CompileSpec)


@dataclass(slots=True)
class NonConstBufferDevice:
    buffer_idx: int = scalar(0, "i32")
    device_type: DeviceType = scalar(1, "i8", enum=DeviceType)
    device_index: int = scalar(2, "i8")


@dataclass(slots=True)
class ExecutionPlan:
    """One method. Entry i of `non_const_buffer_sizes` is the size in bytes of the arena i; entry 0 is unused and 0."""

    name: str = string(0)
    container_meta_type: ContainerMetadata | None = table(1, ContainerMetadata)
    values: list[EValue] = tables(2, EValue)
    inputs: list[int] = vector(3, "i32")
    outputs: list[int] = vector(4, "i32")
    chains: list[Chain] = tables(5, Chain)
    operators: list[Operator] = tables(6, Operator)
    delegates: list[BackendDelegate] = tables(7, BackendDelegate)
    non_const_buffer_sizes: list[int] = vector(8, "i64")
    non_const_buffer_device: list[NonConstBufferDevice] | None = tables(9, NonConstBufferDevice, optional=True)


@dataclass(slots=True)
class ConstantBuffer:
    """Constant data inside the flatbuffer, in files without segments (`Buffer` in the schema)."""

    storage: Buffer = data(0, align=16)


@dataclass(slots=True)
class BackendDelegateInlineData:
    data: Buffer = data(0, align=16)


@dataclass(slots=True)
class DataSegment:
    """A segment of the file: `offset` from the start of the first segment, and `size`, both in bytes."""

    offset: int = scalar(0, "u64")
    size: int = scalar(1, "u64")


@dataclass(slots=True)
class SubsegmentOffsets:
    segment_index: int = scalar(0, "u32")
    offsets: list[int] = vector(1, "u64")


@dataclass(slots=True)
class NamedData:
    key: str = string(0)
    segment_index: int = scalar(1, "u32")


@dataclass(slots=True)
class Program:
    """The root table of a `.pte` file.

    The fields other than `version` and `execution_plan` describe the positions of the data in the file: `write_pte`
    sets them, and `read_pte` clears them.
    """

    version: int = scalar(0, "u32")
    execution_plan: list[ExecutionPlan] = tables(1, ExecutionPlan)
    constant_buffer: list[ConstantBuffer] | None = tables(2, ConstantBuffer, optional=True)
    backend_delegate_data: list[BackendDelegateInlineData] = tables(3, BackendDelegateInlineData)
    segments: list[DataSegment] = tables(4, DataSegment)
    constant_segment: SubsegmentOffsets | None = table(5, SubsegmentOffsets)
    mutable_data_segments: list[SubsegmentOffsets] | None = tables(6, SubsegmentOffsets, optional=True)
    named_data: list[NamedData] | None = tables(7, NamedData, optional=True)
