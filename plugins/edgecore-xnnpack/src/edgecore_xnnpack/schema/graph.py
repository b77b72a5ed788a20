"""The flatbuffer tables of an XNNPACK graph as dataclasses; the delegate of executorch 1.5 reads the same tables.

Only `CacheUpdate`, `State` and the datatype INT64 are edgecore's additions; graphs with states have a different file
identifier.

`xnnpack.fbs` is the schema. Dimensions are in memory order (NHWC for images). Fields that end in `_id` hold the
`TensorValue.id_out` of a value.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from edgecore.sdk.flat import scalar, string, table, tables, union, vector

IDENTIFIER = b"XN01"
STATE_IDENTIFIER = b"XE01"
IDENTIFIERS = (b"XN01", b"XN00", STATE_IDENTIFIER)
INVALID_ID = 2**32 - 1
NAMED_OFFSET = 2**64 - 1
EXTERNAL_INPUT, EXTERNAL_OUTPUT = 1, 2
ALIGN_CORNERS = 8
KEEP_DIMS = 64
MAX_RANK = 6
MAX_EXTERNALS = 4096


class Datatype(IntEnum):
    """Element types with their numbers in the file, which differ from XNNPACK's own numbers."""

    INVALID = 0
    FP32 = 1
    FP16 = 2
    QINT8 = 3
    QUINT8 = 4
    QINT32 = 5
    QCINT8 = 6
    QCINT32 = 7
    QCINT4 = 8
    QDINT8 = 9
    QBINT4 = 10
    QPINT8 = 11
    INT32 = 12
    PFP32 = 13
    BF16 = 14
    INT64 = 15


@dataclass(slots=True)
class _Unary:
    input_id: int = scalar(0, "u32")
    output_id: int = scalar(1, "u32")
    flags: int = scalar(2, "u32")


@dataclass(slots=True)
class _Binary:
    input1_id: int = scalar(0, "u32")
    input2_id: int = scalar(1, "u32")
    output_id: int = scalar(2, "u32")
    flags: int = scalar(3, "u32")


@dataclass(slots=True)
class _Concatenate:
    axis: int = scalar(0, "u32")
    input1_id: int = scalar(1, "u32")
    input2_id: int = scalar(2, "u32")
    input3_id: int = scalar(3, "u32")
    input4_id: int = scalar(4, "u32")
    output_id: int = scalar(5, "u32")
    flags: int = scalar(6, "u32")
    input5_id: int = scalar(7, "u32")


@dataclass(slots=True)
class _Pooling:
    padding_top: int = scalar(0, "u32")
    padding_right: int = scalar(1, "u32")
    padding_bottom: int = scalar(2, "u32")
    padding_left: int = scalar(3, "u32")
    pooling_height: int = scalar(4, "u32")
    pooling_width: int = scalar(5, "u32")
    stride_height: int = scalar(6, "u32")
    stride_width: int = scalar(7, "u32")
    dilation_height: int = scalar(8, "u32")
    dilation_width: int = scalar(9, "u32")
    input_id: int = scalar(10, "u32")
    output_id: int = scalar(11, "u32")
    flags: int = scalar(12, "u32")


@dataclass(slots=True)
class _Convolution:
    """Fields of all convolutions. Filters have the shape [O, H, W, I / groups], depthwise filters [1, H, W, O]."""

    padding_top: int = scalar(0, "u32")
    padding_right: int = scalar(1, "u32")
    padding_bottom: int = scalar(2, "u32")
    padding_left: int = scalar(3, "u32")
    kernel_height: int = scalar(4, "u32")
    kernel_width: int = scalar(5, "u32")
    subsampling_height: int = scalar(6, "u32")
    subsampling_width: int = scalar(7, "u32")
    dilation_height: int = scalar(8, "u32")
    dilation_width: int = scalar(9, "u32")
    group_input_channels: int = scalar(10, "u32")
    group_output_channels: int = scalar(11, "u32")
    groups: int = scalar(12, "u32")
    adjustment_height: int = scalar(13, "u32")
    adjustment_width: int = scalar(14, "u32")
    input1_id: int = scalar(15, "u32")
    filter_id: int = scalar(16, "u32")
    bias_id: int = scalar(17, "u32")
    output_id: int = scalar(18, "u32")
    flags: int = scalar(19, "u32")


@dataclass(slots=True)
class FullyConnected:
    """A linear layer, whose filter has the shape [outputs, inputs]."""

    input1_id: int = scalar(0, "u32")
    filter_id: int = scalar(1, "u32")
    bias_id: int = scalar(2, "u32")
    output_id: int = scalar(3, "u32")
    flags: int = scalar(4, "u32")


@dataclass(slots=True)
class StaticTranspose:
    num_dims: int = scalar(0, "u32")
    perm: list[int] = vector(1, "u32")
    input_id: int = scalar(2, "u32")
    output_id: int = scalar(3, "u32")
    flags: int = scalar(4, "u32")


@dataclass(slots=True)
class StaticResizeBilinear2D:
    new_height: int = scalar(0, "u32")
    new_width: int = scalar(1, "u32")
    input_id: int = scalar(2, "u32")
    output_id: int = scalar(3, "u32")
    flags: int = scalar(4, "u32")


@dataclass(slots=True)
class StaticConstantPad:
    pre_paddings: list[int] = vector(0, "u32")
    post_paddings: list[int] = vector(1, "u32")
    padding_value: float = scalar(2, "f32")
    input_id: int = scalar(3, "u32")
    output_id: int = scalar(4, "u32")
    flags: int = scalar(5, "u32")


@dataclass(slots=True)
class StaticReshape:
    num_dims: int = scalar(0, "u32")
    new_shape: list[int] = vector(1, "u32")
    input_id: int = scalar(2, "u32")
    output_id: int = scalar(3, "u32")
    flags: int = scalar(4, "u32")


@dataclass(slots=True)
class StaticSlice:
    num_dims: int = scalar(0, "u32")
    offsets: list[int] = vector(1, "u32")
    sizes: list[int] = vector(2, "u32")
    input_id: int = scalar(3, "u32")
    output_id: int = scalar(4, "u32")
    flags: int = scalar(5, "u32")


@dataclass(slots=True)
class ELU:
    alpha: float = scalar(0, "f32")
    input_id: int = scalar(1, "u32")
    output_id: int = scalar(2, "u32")
    flags: int = scalar(3, "u32")


@dataclass(slots=True)
class LeakyReLU:
    negative_slope: float = scalar(0, "f32")
    input_id: int = scalar(1, "u32")
    output_id: int = scalar(2, "u32")
    flags: int = scalar(3, "u32")


@dataclass(slots=True)
class ScaledDotProductAttention:
    """Attention; the delegate of executorch 1.5 does not run it. `scale_id` is a constant of one element."""

    query_id: int = scalar(0, "u32")
    key_id: int = scalar(1, "u32")
    value_id: int = scalar(2, "u32")
    scale_id: int = scalar(3, "u32")
    mask_id: int = scalar(4, "u32")
    output_id: int = scalar(5, "u32")
    flags: int = scalar(6, "u32")


@dataclass(slots=True)
class CacheUpdate:
    """Writes rows into a state, at the indices `positions` of its dimension `dim`. The output is the updated state."""

    cache_id: int = scalar(0, "u32")
    rows_id: int = scalar(1, "u32")
    positions_id: int = scalar(2, "u32")
    output_id: int = scalar(3, "u32")
    dim: int = scalar(4, "u32")


@dataclass(slots=True)
class ArgMaxPooling2d:
    padding_top: int = scalar(0, "u32")
    padding_right: int = scalar(1, "u32")
    padding_bottom: int = scalar(2, "u32")
    padding_left: int = scalar(3, "u32")
    pooling_height: int = scalar(4, "u32")
    pooling_width: int = scalar(5, "u32")
    input_id: int = scalar(6, "u32")
    output_value_id: int = scalar(7, "u32")
    output_index_id: int = scalar(8, "u32")
    flags: int = scalar(9, "u32")


class Add(_Binary): ...


class Div(_Binary): ...


class Minimum(_Binary): ...


class Multiply(_Binary): ...


class Subtract(_Binary): ...


class Maximum(_Binary): ...


class PReLU(_Binary): ...


class BatchMatrixMultiply(_Binary): ...


class Softmax(_Unary): ...


class Sigmoid(_Unary): ...


class Clamp(_Unary): ...


class Floor(_Unary): ...


class Convert(_Unary): ...


class GlobalAvgPooling2d(_Unary): ...


class SquareRoot(_Unary): ...


class Ceiling(_Unary): ...


class Hardswish(_Unary): ...


class Negate(_Unary): ...


class Square(_Unary): ...


class Abs(_Unary): ...


class ReciprocalSquareRoot(_Unary): ...


class Log(_Unary): ...


class Gelu(_Unary): ...


class Tanh(_Unary): ...


class Exp(_Unary): ...


class Sin(_Unary): ...


class Copy(_Unary): ...


class Cos(_Unary): ...


class Conv2d(_Convolution): ...


class DepthwiseConv2d(_Convolution): ...


class ConvTranspose2d(_Convolution): ...


class AvgPooling2d(_Pooling): ...


class MaxPooling2d(_Pooling): ...


class Concatenate2(_Concatenate): ...


class Concatenate3(_Concatenate): ...


class Concatenate4(_Concatenate): ...


class Concatenate5(_Concatenate): ...


NODE_TYPES: dict[int, type] = dict(
    enumerate(
        (
            Add, FullyConnected, Softmax, Sigmoid, StaticTranspose, Clamp, Conv2d, Div, StaticResizeBilinear2D,
            StaticConstantPad, AvgPooling2d, Minimum, DepthwiseConv2d, MaxPooling2d, Multiply, Subtract, Floor, Convert,
            GlobalAvgPooling2d, StaticReshape, ArgMaxPooling2d, SquareRoot, Ceiling, Hardswish, LeakyReLU, Maximum,
            Negate, Square, ELU, Abs, PReLU, Concatenate2, Concatenate3, Concatenate4, StaticSlice,
            ScaledDotProductAttention, BatchMatrixMultiply, Concatenate5, ConvTranspose2d, ReciprocalSquareRoot, Log,
            Gelu, Tanh, Exp, Sin, Copy, Cos, CacheUpdate,
        ),
        1,
    )
)  # fmt: skip
"""Maps the type number in the union of a node to the class of the node."""


@dataclass(slots=True)
class OutputMinMax:
    output_min: float = scalar(0, "f32")
    output_max: float = scalar(1, "f32")


@dataclass(slots=True)
class Node:
    """A node of the graph; `debug_handle` is its index in `Graph.nodes`."""

    node: object | None = union(0, NODE_TYPES)
    debug_handle: int = scalar(2, "u32")
    output_min_max: OutputMinMax | None = table(3, OutputMinMax)


@dataclass(slots=True)
class TensorValue:
    """A tensor.

    `constant_buffer_idx` is an index into `Graph.constant_data`, or 0 if the tensor is not constant. `external_id` is
    an index into the delegate's arguments, or INVALID_ID for an internal value.
    """

    datatype: Datatype = scalar(0, "i16", enum=Datatype)
    num_dims: int = scalar(1, "u32")
    dims: list[int] = vector(2, "u32")
    constant_buffer_idx: int = scalar(3, "u32")
    external_id: int = scalar(4, "u32")
    flags: int = scalar(5, "u32")
    id_out: int = scalar(6, "u32")


@dataclass(slots=True)
class PerChannelQuant:
    scale: list[float] = vector(0, "f32")
    channel_dim: int = scalar(1, "i32")
    scale_buffer_idx: int = scalar(2, "u32")
    num_scales: int = scalar(3, "u32")


@dataclass(slots=True)
class PerTensorQuant:
    scale: float = scalar(0, "f32")
    zero_point: int = scalar(1, "i32")


@dataclass(slots=True)
class PerTokenDynamicQuant:
    num_nonbatch_dims: int = scalar(0, "i32")


@dataclass(slots=True)
class PerChannelGroupQuant:
    scale: list[float] = vector(0, "f32")
    channel_dim: int = scalar(1, "i32")
    group_size: int = scalar(2, "i32")
    scale_buffer_idx: int = scalar(4, "u32")
    num_scales: int = scalar(5, "u32")


QuantParams = PerChannelQuant | PerTensorQuant | PerTokenDynamicQuant | PerChannelGroupQuant


@dataclass(slots=True)
class QuantizedTensorValue:
    tensor_value: TensorValue | None = table(0, TensorValue)
    quant_params: PerChannelQuant | PerTensorQuant | PerTokenDynamicQuant | PerChannelGroupQuant | None = union(
        1, {1: PerChannelQuant, 2: PerTensorQuant, 3: PerTokenDynamicQuant, 4: PerChannelGroupQuant}
    )


@dataclass(slots=True)
class Value:
    value: TensorValue | QuantizedTensorValue | None = union(0, {1: TensorValue, 2: QuantizedTensorValue})


@dataclass(slots=True)
class ConstantDataOffset:
    """Location and size in bytes of a constant.

    If `offset` is NAMED_OFFSET, the constant is not in the blob but in the named data of the `.pte` with the key
    `named_key`.
    """

    offset: int = scalar(0, "u64")
    size: int = scalar(1, "u64")
    named_key: str = string(2)


@dataclass(slots=True)
class State:
    """A mutable buffer of the model that the delegate keeps.

    `name` is the qualified name of the buffer. The initial content is the named data with this name if `has_initial`,
    else zeros.
    """

    value_id: int = scalar(0, "u32")
    name: str = string(1)
    has_initial: bool = scalar(2, "bool")


@dataclass(slots=True)
class Graph:
    """A graph; entry 0 of `constant_data` is reserved, because index 0 means that a tensor is not constant."""

    version: str = string(0)
    nodes: list[Node] = tables(1, Node)
    values: list[Value] = tables(2, Value)
    num_externs: int = scalar(3, "u32")
    input_ids: list[int] = vector(4, "u32")
    output_ids: list[int] = vector(5, "u32")
    constant_data: list[ConstantDataOffset] = tables(8, ConstantDataOffset)
    states: list[State] | None = tables(9, State, optional=True)
