"""Matmuls and linear layers."""

from __future__ import annotations

import numpy as np
import torch
from torch.fx import Node

from edgecore.sdk import is_dequantize, parameters_of
from edgecore.sdk.torch_compat import quantized_operators
from edgecore_xnnpack.graph.lower import Lowering, bits_of, is_grouped
from edgecore_xnnpack.graph.padding import pad
from edgecore_xnnpack.graph.subgraph import FIRST, Array, SubgraphValue
from edgecore_xnnpack.operator_table import TABLE, Query, lowers
from edgecore_xnnpack.operators.elementwise import binary
from edgecore_xnnpack.schema import graph as g

aten = torch.ops.aten
library = quantized_operators()
DYNAMIC_DEQUANTIZE = (library.dequantize_per_tensor.tensor, library.dequantize_per_token.default)
"""Operators that dequantize a tensor which was quantized at run time."""

BLOCK = 32
"""In weights with a scale per group of elements in a row, XNNPACK supports groups of a multiple of 32 elements."""


def fully_connected(
    low: Lowering,
    value: SubgraphValue,
    weight: Array,
    bias: SubgraphValue | None,
    scales: Array | None = None,
    bits: int = 8,
) -> SubgraphValue:
    """Emit the product of `value` [..., I] and the transpose of `weight` [O, I], plus `bias` [O].

    `scales` and `bits` describe the quantization of a dequantized weight, see `SubgraphValue`.
    """
    inputs = [value, low.constant(weight, scales, bits=bits)] + ([] if bias is None else [bias])
    return low.emit(g.FullyConnected, inputs, (*value.shape[:-1], weight.shape[0]), FIRST)


def _check_linear(query: Query) -> str | None:
    weight = query.argument("weight")
    if weight.meta["val"].dim() != 2:
        return f"a weight of rank {weight.meta['val'].dim()}"
    return _check_scheme(query, weight) if is_dequantize(weight) else None


def _check_scheme(query: Query, weight: Node) -> str | None:
    """Return why XNNPACK does not support the quantization of a weight; None if it does.

    XNNPACK supports a single scale or a scale for each row. A scale for each group of elements in a row needs 4-bit
    weights, and inputs that are quantized at run time.
    """
    if not is_grouped(weight):
        parameters = parameters_of(weight)
        return (
            "a weight with a scale for each input channel"
            if parameters is None or parameters.axis not in (None, 0)
            else None
        )
    width = bits_of(weight)
    if query.argument("input").target not in DYNAMIC_DEQUANTIZE:
        return f"weights of {width} bits in groups, but the input is not quantized at run time"
    if width != 4:
        return f"weights of {width} bits in groups; XNNPACK supports groups with 4 bits only"
    return None


def _check_quantized_input(query: Query) -> str | None:
    """Return why a linear layer whose weight has scales per group cannot quantize its input; None if it can."""
    weight = query.argument("weight")
    if not is_dequantize(weight) or not is_grouped(weight):
        return None
    reason = TABLE.unsupported_reason(query.about(query.argument("input")))
    return None if reason is None else f"weights in groups, but its input is not quantized in the delegate: {reason}"


def _pad_groups(low: Lowering, value: SubgraphValue, weight: Array, scales: Array) -> tuple[SubgraphValue, Array]:
    """Pad each group of the input and of the weight with zeros to a multiple of `BLOCK` elements.

    The zeros do not change the scale and zero point of an input row, whose range always includes 0.
    """
    rows, groups = scales.shape
    group = weight.shape[1] // groups
    extra = -group % BLOCK
    if extra == 0:
        return value, weight
    lead, before = value.shape[:-1], (0,) * (len(value.shape) + 1)
    value = pad(low, low.reshape(value, (*lead, groups, group)), before, (*before[1:], extra), 0.0)
    weight = np.pad(weight.reshape(rows, groups, group), ((0, 0), (0, 0), (0, extra)))
    return low.reshape(value, (*lead, groups * (group + extra))), weight.reshape(rows, -1)


@lowers(aten.linear.default, check=_check_linear, needs=_check_quantized_input, do_not_decompose=True,
        constraints="rank-2 weights; if quantized, a scale for each row, or each group of 4-bit weights")  # fmt: skip
def _linear(low: Lowering, node: Node) -> SubgraphValue:
    """Emit a fully connected node. If the bias is computed at run time, an addition node adds it to the result."""
    weight = low.array(low.argument("weight"))
    bias = None if low.argument("bias") is None else low.value(low.argument("bias"))
    packed = bias if bias is not None and bias.constant is not None and weight is not None else None
    if weight is None:
        result = low.emit(g.FullyConnected, [low.input(), low.value(low.argument("weight"))], low.shape, FIRST)
    else:
        scales, bits, value = low.scales(low.argument("weight")), low.bits(low.argument("weight")), low.input()
        if scales is not None and scales.ndim == 2:
            value, weight = _pad_groups(low, value, weight, scales)
        result = fully_connected(low, value, weight, packed, scales, bits)
    return result if bias is packed else binary(low, g.Add, result, bias)  # type: ignore[arg-type]


def _matmul(low: Lowering, left: SubgraphValue, right: SubgraphValue) -> SubgraphValue:
    shape = (*left.shape[:-1], right.shape[-1])
    return low.emit(g.BatchMatrixMultiply, [left, right], shape, FIRST)


def _matrices(
    low: Lowering, left: SubgraphValue, right: SubgraphValue, bias: SubgraphValue | None = None
) -> SubgraphValue:
    """Emit `left` [M, K] times `right` [K, N] plus `bias`, as a fully connected node if `right` is constant."""
    if right.constant is not None:
        row = bias if bias is not None and bias.constant is not None and bias.shape == right.shape[1:] else None
        result = fully_connected(low, left, right.constant.T, row)
        return result if bias is None or row is not None else binary(low, g.Add, result, bias)
    batches = [low.reshape(value, (1, *value.shape)) for value in (left, right)]
    result = _matmul(low, *batches)
    result = low.reshape(result, result.shape[1:])
    return result if bias is None else binary(low, g.Add, result, bias)


@lowers(aten.mm.default)
def _mm(low: Lowering, node: Node) -> SubgraphValue:
    return _matrices(low, low.value(node.args[0]), low.value(node.args[1]))


@lowers(aten.addmm.default)
def _addmm(low: Lowering, node: Node) -> SubgraphValue:
    left, bias = low.value(low.argument("mat1")), low.value(low.argument("self"))
    left, bias = _scaled(low, left, low.argument("alpha")), _scaled(low, bias, low.argument("beta"))
    return _matrices(low, left, low.value(low.argument("mat2")), bias)


def _scaled(low: Lowering, value: SubgraphValue, factor: float) -> SubgraphValue:
    if factor == 1:
        return value
    if value.constant is not None:
        return low.constant(value.constant * factor)
    return binary(low, g.Multiply, value, low.scalar(float(factor)))


@lowers(aten.bmm.default)
def _bmm(low: Lowering, node: Node) -> SubgraphValue:
    return _matmul(low, low.value(node.args[0]), low.value(node.args[1]))
