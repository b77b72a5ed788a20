"""The table of operators and their roles in quantization, from which all quantizers select their operators.

A quantizer selects operators by their roles, and lists exceptions by their names:

    MOVES = (with_roles(Role.VIEW, Role.PAD) | operators("cat max_pool2d")) - operators("squeeze.dims")
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum, auto
from typing import Any

import torch
from torchao.quantization.pt2e.quantizer import FixedQParamsQuantizationSpec

from edgecore.ir.dialect.edge_operators import VIEW_COPIES

aten = torch.ops.aten


class Role(Enum):
    """The treatment of an operator by a quantizer.

    Attributes:
        LAYER: Multiplies an input by a constant weight whose first dim has the output channels.
        TRANSPOSED_LAYER: Multiplies an input by a constant weight whose second dim has the output channels.
        BATCH_NORM: Is fused with the layer before it.
        CLAMP: Is fused with the operator before it; otherwise it shares the parameters of its input.
        BINARY: Elementwise function of two tensors, each with its own parameters.
        PRODUCT: Product of two matrices, each with its own parameters.
        ACTIVATION: Elementwise function of one tensor, which a backend can fuse with the layer before it.
        UNARY: Function of one tensor, and possibly constants; the result has another range than the input.
        SCALAR: Elementwise function of a tensor and a number.
        FIXED: Function of one tensor whose result has a known range, so that scale and zero point are fixed.
        AVERAGE: Average of one tensor; the result lies in the input's range, so it can share the parameters.
        EXTREME: Largest or smallest elements of the inputs, whose parameters the result shares.
        MAX_POOL: Largest elements of windows.
        RESAMPLE: Resizes an image; the result lies in the input's range.
        VIEW: Changes the shape or the order of dims.
        VIEW_VARIANT: Another spelling of a `VIEW`.
        IDENTITY: Does nothing outside of training.
        COPY: Copies the elements in the same order.
        PART: Takes a part of a tensor.
        REPEAT: Repeats the elements.
        REORDER: Reorders the elements in a way that no view can.
        PAD: Surrounds the elements by a number.
        JOIN: Joins the elements of several tensors, which share their parameters.
        GATHER: Takes the elements at integer indices.
        SPLIT: Returns a list of parts, which share the parameters of the input.
        EXTREME_AND_INDEX: Returns the largest or smallest elements, and their positions.
        SELECTION: Selects elements of tensors with different ranges.
        MASK: Sets elements to a number.
        COMPARISON: Compares integers; the result is a boolean.
    """

    LAYER = auto()
    TRANSPOSED_LAYER = auto()
    BATCH_NORM = auto()
    CLAMP = auto()
    BINARY = auto()
    PRODUCT = auto()
    ACTIVATION = auto()
    UNARY = auto()
    SCALAR = auto()
    FIXED = auto()
    AVERAGE = auto()
    EXTREME = auto()
    MAX_POOL = auto()
    RESAMPLE = auto()
    VIEW = auto()
    VIEW_VARIANT = auto()
    IDENTITY = auto()
    COPY = auto()
    PART = auto()
    REPEAT = auto()
    REORDER = auto()
    PAD = auto()
    JOIN = auto()
    GATHER = auto()
    SPLIT = auto()
    EXTREME_AND_INDEX = auto()
    SELECTION = auto()
    MASK = auto()
    COMPARISON = auto()


_TABLE: dict[Role, str] = {
    Role.LAYER: "conv1d conv1d.padding conv2d conv2d.padding conv3d conv3d.padding linear convolution",
    Role.TRANSPOSED_LAYER: "conv_transpose1d conv_transpose2d.input",
    Role.BATCH_NORM: "batch_norm",
    Role.CLAMP: "relu relu_ relu6 relu6_ hardtanh hardtanh_ clamp clamp_",
    Role.BINARY: "add.Tensor add_.Tensor sub.Tensor sub_.Tensor mul.Tensor mul_.Tensor div.Tensor div_.Tensor",
    Role.PRODUCT: "matmul bmm mm",
    Role.ACTIVATION: "hardswish hardswish_ leaky_relu leaky_relu_ elu elu_ silu silu_ gelu",
    Role.UNARY: """
        prelu selu celu softplus mish log_sigmoid softshrink hardshrink
        exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal square pow.Tensor_Scalar
        sin cos tan asin acos atan sinh cosh asinh acosh atanh erf logit
        abs neg sign trunc floor ceil round
        layer_norm group_norm rms_norm instance_norm sum sum.dim_IntList log_softmax.int _log_softmax
    """,
    Role.SCALAR: "add.Scalar sub.Scalar rsub.Scalar mul.Scalar div.Scalar",
    Role.FIXED: "sigmoid sigmoid_ hardsigmoid hardsigmoid_ softmax.int _softmax tanh tanh_",
    Role.AVERAGE: """
        mean mean.dim avg_pool1d avg_pool2d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
        _adaptive_avg_pool2d
    """,
    Role.EXTREME: "amax amin max min maximum minimum",
    Role.MAX_POOL: "max_pool2d max_pool3d",
    Role.RESAMPLE: "upsample_nearest2d.vec _upsample_nearest_exact2d.vec upsample_bilinear2d.vec",
    Role.VIEW: "view reshape flatten.using_ints permute transpose.int squeeze.dim unsqueeze",
    Role.VIEW_VARIANT: "unflatten.int squeeze squeeze.dims t mT swapaxes movedim.int movedim.intlist",
    Role.IDENTITY: "dropout dropout_",
    Role.COPY: "contiguous clone alias detach_",
    Role.PART: "slice.Tensor select.int narrow",
    Role.REPEAT: "expand repeat tile",
    Role.REORDER: "flip roll pixel_shuffle pixel_unshuffle channel_shuffle",
    Role.PAD: "pad constant_pad_nd",
    Role.JOIN: "cat stack",
    Role.GATHER: "embedding index_select index.Tensor gather",
    Role.SPLIT: "chunk split.Tensor split_with_sizes tensor_split.sections tensor_split.indices unbind.int",
    Role.EXTREME_AND_INDEX: "max.dim min.dim",
    Role.SELECTION: "where.self where.Scalar where.ScalarOther where.ScalarSelf",
    Role.MASK: "masked_fill.Scalar masked_fill_.Scalar",
    Role.COMPARISON: """
        gt.Tensor gt.Scalar ge.Tensor ge.Scalar lt.Tensor lt.Scalar le.Tensor le.Scalar eq.Tensor eq.Scalar
        ne.Tensor ne.Scalar
    """,
}


def operators(names: str) -> frozenset[Any]:
    """Return ATen operators by their names, such as `add.Tensor max_pool2d`; the default overload can be left out.

    Raises:
        AttributeError: ATen has no such operator.
    """
    pairs = (name.partition(".") for name in names.split())
    return frozenset(getattr(getattr(aten, name), overload or "default") for name, _, overload in pairs)


def with_roles(*roles: Role) -> frozenset[Any]:
    """Return the operators that have one of `roles`."""
    return operators(" ".join(_TABLE[role] for role in roles))


def edge_forms(exported: Collection[Any]) -> frozenset[Any]:
    """Translate operators of an exported program to the edge dialect: views become copies."""
    return frozenset(VIEW_COPIES.get(operator, operator) for operator in exported)


NORMS = with_roles(Role.BATCH_NORM)
CLAMPS = with_roles(Role.CLAMP)
"""Operators of an exported model that are fused with the layer before them.

A fused clamp costs nothing, because the layer's integer range is chosen to end at the clamp's limits.
"""

LAYERS: Mapping[Any, int] = {
    **dict.fromkeys(with_roles(Role.LAYER), 0),
    **dict.fromkeys(with_roles(Role.TRANSPOSED_LAYER), 1),
}
"""Operators with a weight -> dim of the weight's output channels; for a transposed `convolution` it is 1."""

_FROM_MINUS_ONE = operators("tanh tanh_")


def fixed_spec(operator: Any, dtype: torch.dtype) -> FixedQParamsQuantizationSpec:
    """Return the specification of the result of a `FIXED` operator, whose range the integers cover.

    The range is [-1, 1) for `tanh`, and [0, 1) for other operators: the scale is a power of two, so the largest integer
    is one step below the upper limit. int16 is symmetric, because all int16 kernels expect it.

    Args:
        operator: The operator of an exported program.
        dtype: The integer type.
    """
    if dtype == torch.int16:
        return FixedQParamsQuantizationSpec(dtype, 2.0**-15, 0, -32767, 32767, torch.per_tensor_symmetric)
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    levels = high - low + 1
    is_signed = operator in _FROM_MINUS_ONE
    scale, zero_point = (2 / levels, low + levels // 2) if is_signed else (1 / levels, low)
    return FixedQParamsQuantizationSpec(dtype, scale, zero_point, low, high, torch.per_tensor_affine)
