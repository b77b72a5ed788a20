"""Fuse layers with int8 weights into integer layers: compute their integer weights, biases and scale factors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from edgecore.ir.graph import Editor, for_each
from edgecore.ir.op_args import argument
from edgecore.ir.program.constants import Constants
from edgecore.passes.integers.values import Integers, call_operator, input_value, without_clamps
from edgecore.passes.quantized import is_dequantize, parameters_of

aten = torch.ops.aten
MAX_DEPTH = 1 << 15
"""Largest number of products that a kernel adds up. The sum of more products could overflow 32 bits for int8 values, or
46 bits for int16 values."""


@dataclass(frozen=True)
class _Weight:
    """The weight of a layer, from the constant `source`: int8 integers in the layer's layout, and float64 scales.

    There is one scale, or one for each output channel.
    """

    source: Node
    integers: torch.Tensor
    scales: torch.Tensor


def fuse_layer(editor: Editor, node: Node, result: Integers, constants: Constants) -> Node | None:
    """Return an integer layer for the quantize node `node` if that node reads a convolution or linear layer."""
    layer, bounds = without_clamps(node.args[0])
    if layer.target not in (aten.convolution.default, aten.linear.default) or len(layer.users) != 1:
        return None
    source = input_value(layer.args[0], result.arithmetic.dtype)
    transposed = layer.target is aten.convolution.default and argument(layer, "transposed")
    weight = _weight(layer.args[1], 1 if transposed else 0, constants)
    if source is None or weight is None:
        return None
    if layer.target is aten.linear.default:
        name, integers, geometry, padded = "linear", weight.integers, (), []
    else:
        rank = weight.integers.dim() - 2
        if rank not in (1, 2):
            return None
        name, groups, padded = "convolution", argument(layer, "groups"), [source]
        integers = _as_plain_weight(weight.integers, groups) if transposed else weight.integers
        geometry = (*_geometry(layer, integers), groups)
    channels = _channels(source, weight, integers, argument(layer, "bias"), result, constants)
    if channels is None or channels.shape != (3, integers.shape[0]):
        return None
    tensors = (
        constants.add(f"{weight.source.name}_integers", integers.contiguous(), weight.source),
        constants.add(f"{weight.source.name}_channels", channels, weight.source),
    )
    return call_operator(editor, name, (source.node, *tensors, *geometry), padded, (), result, bounds)


def _weight(node: Any, axis: int, constants: Constants) -> _Weight | None:
    """Return the weight that `node` dequantizes with zero points of 0, and its scale or scales along dim `axis`."""
    parameters = parameters_of(node) if isinstance(node, Node) and is_dequantize(node) else None
    if parameters is None or parameters.dtype != torch.int8 or not constants.has(node.args[0]):
        return None
    numbers = (parameters.scale, parameters.zero_point)
    is_constant = all(not isinstance(number, Node) or constants.has(number) for number in numbers)
    if parameters.axis not in (None, axis) or not is_constant:
        return None
    scale, zero_point = (
        constants.get(number).double() if isinstance(number, Node) else torch.tensor(number, dtype=torch.float64)
        for number in numbers
    )
    if zero_point.any():
        return None
    source: Any = node.args[0]
    return _Weight(source, constants.get(source), scale)


def _as_plain_weight(weight: torch.Tensor, groups: int) -> torch.Tensor:
    """Return the weight [outputs, inputs / groups, ...] of the ordinary convolution that equals a transposed one."""
    inputs, outputs, *kernel = weight.shape
    grouped = weight.reshape(groups, inputs // groups, outputs, *kernel).transpose(1, 2)
    return grouped.reshape(groups * outputs, inputs // groups, *kernel).flip(list(range(2, weight.dim())))


def _geometry(layer: Node, integers: torch.Tensor) -> tuple[list[int], ...]:
    """Return stride, padding, dilation, upsampling, output padding of the ordinary convolution that equals `layer`."""
    kernel = integers.shape[2:]
    names = ("stride", "padding", "dilation", "output_padding")
    stride, padding, dilation, extra = (for_each(argument(layer, name), len(kernel)) for name in names)
    ones, zeros = [1] * len(kernel), [0] * len(kernel)
    if not argument(layer, "transposed"):
        return stride, padding, dilation, ones, zeros
    reach = [step * (size - 1) for step, size in zip(dilation, kernel, strict=True)]
    return ones, [far - near for far, near in zip(reach, padding, strict=True)], dilation, stride, extra


def _channels(
    source: Integers, weight: _Weight, integers: torch.Tensor, bias: Any, result: Integers, constants: Constants
) -> torch.Tensor | None:
    """Return the bias, multiplier and shift of each output channel as [3, outputs], in the dtype of the layer's sums.

    Returns None if the layer adds up too many products, the bias is not constant, or a bias or a multiplier exceeds its
    integer range.
    """
    rows = integers.reshape(integers.shape[0], -1).to(torch.int64)
    if rows.shape[1] > MAX_DEPTH or (bias is not None and not constants.has(bias)):
        return None
    scales = (source.scale * weight.scales).expand(rows.shape[0])
    real = torch.zeros(rows.shape[0]) if bias is None else constants.get(bias)
    biases = (real.double() / scales).round() - source.zero_point * rows.sum(1).double()
    arithmetic = result.arithmetic
    factors = [arithmetic.fixed_point(scale / result.scale) for scale in scales.tolist()]
    if None in factors or not (biases.abs() < arithmetic.max_bias).all():
        return None
    pairs = torch.tensor(factors, dtype=arithmetic.sum_dtype).reshape(-1, 2)
    return torch.stack([biases.to(arithmetic.sum_dtype), pairs[:, 0], pairs[:, 1]])
