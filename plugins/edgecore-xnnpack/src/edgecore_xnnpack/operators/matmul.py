"""Products of matrices."""

from __future__ import annotations

import torch
import torch.ao.quantization.fx._decomposed  # registers the operators
from torch.fx import Node

from edgecore.passes.quantized import is_dequantize, parameters_of
from edgecore.passes.rewrites import argument
from edgecore_xnnpack.lowering import Lowering, bits_of, is_grouped
from edgecore_xnnpack.net import FIRST, Array, Value
from edgecore_xnnpack.operators.elementwise import binary
from edgecore_xnnpack.operators.table import Query, lowers
from edgecore_xnnpack.schema import graph as g

aten = torch.ops.aten
library = torch.ops.quantized_decomposed
ROUNDED = (library.dequantize_per_tensor.tensor, library.dequantize_per_token.default)
"""What gives a value that was rounded to 8 bits at run time."""


def fully_connected(
    low: Lowering, value: Value, weight: Array, bias: Value | None, scales: Array | None = None, bits: int = 8
) -> Value:
    """Multiply [..., I] by the transpose of `weight` [O, I] and add `bias` [O]; `scales`, `bits` of a quantized weight."""
    inputs = [value, low.constant(weight, scales, bits=bits)] + ([] if bias is None else [bias])
    return low.emit(g.FullyConnected, inputs, (*value.shape[:-1], weight.shape[0]), FIRST)


def _check_linear(query: Query) -> str | None:
    weight = query.argument("weight")
    return _check_scheme(query, weight) if is_dequantize(weight) else None


def _check_scheme(query: Query, weight: Node) -> str | None:
    """XNNPACK has a scale for each row, and for one kind of linear layer one for each group of a row's entries."""
    if not is_grouped(weight):
        parameters = parameters_of(weight)
        return "scales of the inputs of a weight" if parameters is None or parameters.axis not in (None, 0) else None
    width, group = bits_of(weight), argument(weight, "group_size")
    if query.argument("input").target not in ROUNDED:
        return f"weights of {width} bits in groups, for an input that is not rounded at run time"
    if width != 4:
        return f"weights of {width} bits in groups; XNNPACK has groups of 4 bits only"
    return None if group % 32 == 0 else f"weights in groups of {group}; XNNPACK has multiples of 32 only"


@lowers(aten.linear.default, check=_check_linear, whole=True,
        constraints="quantized weights: a scale for each row, or for groups of 4-bit numbers")  # fmt: skip
def _linear(low: Lowering, node: Node) -> Value:
    """A bias that is computed is added to the result."""
    weight = low.array(low.argument("weight"))
    bias = None if low.argument("bias") is None else low.value(low.argument("bias"))
    packed = bias if bias is not None and bias.constant is not None and weight is not None else None
    if weight is None:
        given = low.value(low.argument("weight"))
        result = low.emit(g.FullyConnected, [low.input(), given], low.shape, FIRST)
    else:
        scales, bits = low.scales(low.argument("weight")), low.bits(low.argument("weight"))
        result = fully_connected(low, low.input(), weight, packed, scales, bits)
    return result if bias is packed else binary(low, g.Add, result, bias)  # type: ignore[arg-type]


def _product(low: Lowering, left: Value, right: Value) -> Value:
    """The product of two stacks of matrices."""
    shape = (*left.shape[:-1], right.shape[-1])
    return low.emit(g.BatchMatrixMultiply, [left, right], shape, FIRST)


def _matrices(low: Lowering, left: Value, right: Value, bias: Value | None = None) -> Value:
    """[M, K] times [K, N]: a weight on the right makes it fully connected."""
    if right.constant is not None:
        row = bias if bias is not None and bias.constant is not None and bias.shape == right.shape[1:] else None
        result = fully_connected(low, left, right.constant.T, row)
        return result if bias is None or row is not None else binary(low, g.Add, result, bias)
    stacks = [low.reshape(value, (1, *value.shape)) for value in (left, right)]
    result = _product(low, *stacks)
    result = low.reshape(result, result.shape[1:])
    return result if bias is None else binary(low, g.Add, result, bias)


@lowers(aten.mm.default)
def _mm(low: Lowering, node: Node) -> Value:
    return _matrices(low, low.value(node.args[0]), low.value(node.args[1]))


@lowers(aten.addmm.default)
def _addmm(low: Lowering, node: Node) -> Value:
    left, bias = low.value(low.argument("mat1")), low.value(low.argument("self"))
    left, bias = _scaled(low, left, low.argument("alpha")), _scaled(low, bias, low.argument("beta"))
    return _matrices(low, left, low.value(low.argument("mat2")), bias)


def _scaled(low: Lowering, value: Value, factor: float) -> Value:
    if factor == 1:
        return value
    if value.constant is not None:
        return low.constant(value.constant * factor)
    return binary(low, g.Multiply, value, low.scalar(float(factor)))


@lowers(aten.bmm.default)
def _bmm(low: Lowering, node: Node) -> Value:
    return _product(low, low.value(node.args[0]), low.value(node.args[1]))
