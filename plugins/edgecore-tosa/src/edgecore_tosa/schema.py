"""Declare the flatbuffer tables of a TOSA 1.0 graph as dataclasses, for `edgecore.sdk.flat`.

Arm's serialization library defines the field numbers in `tosa.fbs`. Arm's compiler Vela, model converter and reference
model read these tables. Operators of later TOSA versions are missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from edgecore.sdk.flat import data, scalar, string, strings, table, tables, union, vector

IDENTIFIER = b"TOSA"
ALIGNMENT = 8
"""Alignment of a constant's data in bytes; shorter data is padded with zeros."""


class DType(IntEnum):
    """Element types."""

    UNKNOWN = 0
    BOOL = 1
    INT4 = 2
    INT8 = 3
    INT16 = 4
    INT32 = 5
    INT48 = 6
    FP32 = 7
    FP16 = 8
    BF16 = 9
    SHAPE = 10


class ResizeMode(IntEnum):
    """Interpolation modes of RESIZE."""

    UNKNOWN = 0
    NEAREST = 1
    BILINEAR = 2


class NanMode(IntEnum):
    """Treatments of NaN by a maximum or minimum: propagate or ignore it."""

    UNKNOWN = 0
    PROPAGATE = 1
    IGNORE = 2


class Rounding(IntEnum):
    """Rounding modes of RESCALE; DOUBLE_ROUND needs TOSA's extension EXT-DOUBLEROUND."""

    UNKNOWN = 0
    SINGLE_ROUND = 1
    INEXACT_ROUND = 2
    DOUBLE_ROUND = 3


@dataclass(slots=True)
class _Plain:
    """The empty attribute of an operator that has no attributes."""


@dataclass(slots=True)
class _Axis:
    axis: int = scalar(0, "i32")


@dataclass(slots=True)
class _NanAxis:
    axis: int = scalar(0, "i32")
    nan_mode: NanMode = scalar(1, "u32", enum=NanMode)


@dataclass(slots=True)
class _Nan:
    nan_mode: NanMode = scalar(0, "u32", enum=NanMode)


@dataclass(slots=True)
class _Convolution:
    pad: list[int] = vector(0, "i32")
    stride: list[int] = vector(1, "i32")
    dilation: list[int] = vector(2, "i32")
    local_bound: bool = scalar(3, "bool")
    acc_type: DType = scalar(4, "u32", enum=DType)


@dataclass(slots=True)
class ArgMax(_NanAxis):
    """Attribute of ARGMAX."""


@dataclass(slots=True)
class AvgPool2d:
    """Attribute of AVG_POOL2D; `pad` is (top, bottom, left, right), as in all 2-d operators."""

    kernel: list[int] = vector(0, "i32")
    stride: list[int] = vector(1, "i32")
    pad: list[int] = vector(2, "i32")
    acc_type: DType = scalar(3, "u32", enum=DType)


@dataclass(slots=True)
class Conv2d(_Convolution):
    """Attribute of CONV2D."""


@dataclass(slots=True)
class Conv3d(_Convolution):
    """Attribute of CONV3D."""


@dataclass(slots=True)
class DepthwiseConv2d(_Convolution):
    """Attribute of DEPTHWISE_CONV2D."""


@dataclass(slots=True)
class Fft2d:
    """Attribute of FFT2D."""

    inverse: bool = scalar(0, "bool")
    local_bound: bool = scalar(1, "bool")


@dataclass(slots=True)
class MaxPool2d:
    """Attribute of MAX_POOL2D."""

    kernel: list[int] = vector(0, "i32")
    stride: list[int] = vector(1, "i32")
    pad: list[int] = vector(2, "i32")
    nan_mode: NanMode = scalar(3, "u32", enum=NanMode)


@dataclass(slots=True)
class Rfft2d:
    """Attribute of RFFT2D."""

    local_bound: bool = scalar(0, "bool")


@dataclass(slots=True)
class TransposeConv2d:
    """Attribute of TRANSPOSE_CONV2D."""

    out_pad: list[int] = vector(0, "i32")
    stride: list[int] = vector(1, "i32")
    local_bound: bool = scalar(2, "bool")
    acc_type: DType = scalar(3, "u32", enum=DType)


@dataclass(slots=True)
class Clamp:
    """Attribute of CLAMP; the limits are encoded and padded like constants of the tensor's dtype."""

    min_val: bytes = data(0, ALIGNMENT)
    max_val: bytes = data(1, ALIGNMENT)
    nan_mode: NanMode = scalar(2, "u32", enum=NanMode)


@dataclass(slots=True)
class ArithmeticRightShift:
    """Attribute of ARITHMETIC_RIGHT_SHIFT."""

    round: bool = scalar(0, "bool")


@dataclass(slots=True)
class Transpose:
    """Attribute of TRANSPOSE: dim i of the result is dim `perms[i]` of the input."""

    perms: list[int] = vector(0, "i32")


@dataclass(slots=True)
class Resize:
    """Attribute of RESIZE."""

    mode: ResizeMode = scalar(0, "u32", enum=ResizeMode)


@dataclass(slots=True)
class Rescale:
    """Attribute of RESCALE."""

    scale32: bool = scalar(0, "bool")
    rounding_mode: Rounding = scalar(1, "u32", enum=Rounding)
    per_channel: bool = scalar(2, "bool")
    input_unsigned: bool = scalar(3, "bool")
    output_unsigned: bool = scalar(4, "bool")


@dataclass(slots=True)
class Custom:
    """Attribute of CUSTOM."""

    operator_name: str = string(0)
    domain_name: str = string(1)
    implementation_attrs: bytes = data(2)


@dataclass(slots=True)
class CondIf:
    """Attribute of COND_IF."""

    then_graph: str = string(0)
    else_graph: str = string(1)


@dataclass(slots=True)
class WhileLoop:
    """Attribute of WHILE_LOOP."""

    cond_graph: str = string(0)
    body_graph: str = string(1)


class Op(IntEnum):
    """TOSA's operators; an operator's number is also its attribute's number in the flatbuffer union."""

    ARGMAX = 1
    AVG_POOL2D = 2
    CONV2D = 3
    CONV3D = 4
    DEPTHWISE_CONV2D = 5
    FFT2D = 6
    MATMUL = 7
    MAX_POOL2D = 8
    RFFT2D = 9
    TRANSPOSE_CONV2D = 10
    CLAMP = 11
    ERF = 12
    SIGMOID = 13
    TANH = 14
    ADD = 15
    ARITHMETIC_RIGHT_SHIFT = 16
    BITWISE_AND = 17
    BITWISE_OR = 18
    BITWISE_XOR = 19
    INTDIV = 20
    LOGICAL_AND = 21
    LOGICAL_LEFT_SHIFT = 22
    LOGICAL_RIGHT_SHIFT = 23
    LOGICAL_OR = 24
    LOGICAL_XOR = 25
    MAXIMUM = 26
    MINIMUM = 27
    MUL = 28
    POW = 29
    SUB = 30
    TABLE = 31
    ABS = 32
    BITWISE_NOT = 33
    CEIL = 34
    CLZ = 35
    COS = 36
    EXP = 37
    FLOOR = 38
    LOG = 39
    LOGICAL_NOT = 40
    NEGATE = 41
    RECIPROCAL = 42
    RSQRT = 43
    SIN = 44
    SELECT = 45
    EQUAL = 46
    GREATER = 47
    GREATER_EQUAL = 48
    REDUCE_ALL = 49
    REDUCE_ANY = 50
    REDUCE_MAX = 51
    REDUCE_MIN = 52
    REDUCE_PRODUCT = 53
    REDUCE_SUM = 54
    CONCAT = 55
    PAD = 56
    RESHAPE = 57
    REVERSE = 58
    SLICE = 59
    TILE = 60
    TRANSPOSE = 61
    GATHER = 62
    SCATTER = 63
    RESIZE = 64
    CAST = 65
    RESCALE = 66
    CONST = 67
    IDENTITY = 68
    CUSTOM = 69
    COND_IF = 70
    WHILE_LOOP = 71
    VARIABLE = 72
    VARIABLE_WRITE = 73
    VARIABLE_READ = 74
    CONST_SHAPE = 75


_BASES: dict[Op, type] = {
    Op.MAXIMUM: _Nan,
    Op.MINIMUM: _Nan,
    Op.REDUCE_ALL: _Axis,
    Op.REDUCE_ANY: _Axis,
    Op.REDUCE_MAX: _NanAxis,
    Op.REDUCE_MIN: _NanAxis,
    Op.REDUCE_PRODUCT: _Axis,
    Op.REDUCE_SUM: _Axis,
    Op.CONCAT: _Axis,
    Op.REVERSE: _Axis,
}
"""The fields of the attributes that have no class of their own. Operators that are neither in this table nor in
`ATTRIBUTES` have attributes without fields.
"""

ATTRIBUTES: dict[Op, Any] = {
    Op.ARGMAX: ArgMax,
    Op.AVG_POOL2D: AvgPool2d,
    Op.CONV2D: Conv2d,
    Op.CONV3D: Conv3d,
    Op.DEPTHWISE_CONV2D: DepthwiseConv2d,
    Op.FFT2D: Fft2d,
    Op.MAX_POOL2D: MaxPool2d,
    Op.RFFT2D: Rfft2d,
    Op.TRANSPOSE_CONV2D: TransposeConv2d,
    Op.CLAMP: Clamp,
    Op.ARITHMETIC_RIGHT_SHIFT: ArithmeticRightShift,
    Op.TRANSPOSE: Transpose,
    Op.RESIZE: Resize,
    Op.RESCALE: Rescale,
    Op.CUSTOM: Custom,
    Op.COND_IF: CondIf,
    Op.WHILE_LOOP: WhileLoop,
}
"""The attribute class of each operator; `edgecore.sdk.flat` needs a different class for each operator."""

for _op in Op:
    if _op not in ATTRIBUTES:
        ATTRIBUTES[_op] = type(f"{_op.name}_ATTRIBUTE", (_BASES.get(_op, _Plain),), {"__slots__": ()})


@dataclass(slots=True)
class Version:
    """The TOSA version of a graph."""

    major: int = scalar(0, "i32", -1)
    minor: int = scalar(1, "i32", -1)
    patch: int = scalar(2, "i32", -1)
    draft: bool = scalar(3, "bool", True)


@dataclass(slots=True)
class TosaTensor:
    """A tensor of the graph; `data` is None unless the tensor is the result of a CONST."""

    name: str = string(0)
    shape: list[int] = vector(1, "i32")
    type: DType = scalar(2, "u32", enum=DType)
    data: bytes | None = data(3, ALIGNMENT, optional=True)
    variable: bool = scalar(4, "bool")
    is_unranked: bool = scalar(5, "bool")
    variable_name: str | None = string(6, optional=True)


@dataclass(slots=True)
class TosaShape:
    """A list of 64-bit sizes in the graph, the result of a CONST_SHAPE."""

    name: str = string(0)
    rank: int = scalar(1, "u32")
    data: bytes | None = data(2, ALIGNMENT, optional=True)


@dataclass(slots=True)
class TosaOperator:
    """An operator in the graph, with the names of the tensors and shapes that it reads and writes."""

    op: Op = scalar(0, "u32")
    attribute: Any = union(1, {op.value: cls for op, cls in ATTRIBUTES.items()})
    inputs: list[str] = strings(3)
    outputs: list[str] = strings(4)


@dataclass(slots=True)
class TosaBasicBlock:
    """Operators in an executable order."""

    name: str = string(0)
    operators: list[TosaOperator] = tables(1, TosaOperator)
    tensors: list[TosaTensor] = tables(2, TosaTensor)
    inputs: list[str] = strings(3)
    outputs: list[str] = strings(4)
    shapes: list[TosaShape] = tables(5, TosaShape)


@dataclass(slots=True)
class TosaRegion:
    """A list of basic blocks; a graph without control flow has one region of one block."""

    name: str = string(0)
    blocks: list[TosaBasicBlock] = tables(1, TosaBasicBlock)


@dataclass(slots=True)
class TosaGraph:
    """The root table of the file."""

    version: Version | None = table(0, Version)
    regions: list[TosaRegion] = tables(1, TosaRegion)
