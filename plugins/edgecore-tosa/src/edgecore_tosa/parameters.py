"""Quantization parameters of the values of an edge program, read from its quantize and dequantize nodes.

Between a dequantize and a quantize node the program computes with real numbers, and TOSA with integers. So each
floating-point value needs integers that stand for it: those of the dequantize node that makes it, or of the quantize
nodes that read it. A clamp that is the only user of a value has the same parameters as the value, since the operator
before it can compute its integers. Operators that only move data keep the parameters of their input.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from edgecore.sdk import is_dequantize, is_quantize, parameters_of
from edgecore_tosa.quantization import Quantization
from edgecore_tosa.schema import DType

aten = torch.ops.aten

CLAMPS = frozenset({aten.relu.default, aten.hardtanh.default, aten.clamp.default})
MOVES = frozenset({
    aten.view_copy.default, aten.permute_copy.default, aten.squeeze_copy.dims, aten.unsqueeze_copy.default,
    aten.expand_copy.default, aten.slice_copy.Tensor, aten.clone.default, aten.select_copy.int,
    aten.constant_pad_nd.default, aten.alias_copy.default, aten.split_with_sizes_copy.default, aten.flip.default,
    aten.max_pool2d.default, aten.transpose_copy.int,
})  # fmt: skip
"""Operators whose result holds elements of their first input, or zeros, and nothing else."""

_INTEGERS = {torch.int8: DType.INT8, torch.int16: DType.INT16, torch.int32: DType.INT32}

ReadConstant = Callable[[Any], "torch.Tensor | None"]
"""A function (node) -> the tensor of a constant, or None for any other node."""


class Parameters:
    """The quantization of the values of one program.

    Args:
        constant: Returns the tensor of a constant node.
    """

    def __init__(self, constant: ReadConstant) -> None:
        self._constant = constant
        self._known: dict[Node, Quantization | None] = {}

    def of(self, node: Node) -> Quantization | None:
        """Return the quantization of a floating-point value; None if no quantize or dequantize node gives it one."""
        if node not in self._known:
            self._known[node] = self._find(node)
        return self._known[node]

    def of_node(self, node: Node) -> Quantization | None:
        """Return the parameters of a quantize or dequantize node; None if they are not known when compiling."""
        found = parameters_of(node)
        if found is None or found.dtype not in _INTEGERS:
            return None
        dtype, low, high = _INTEGERS[found.dtype], found.quant_min, found.quant_max
        if found.axis is None and found.is_per_tensor:
            assert not isinstance(found.scale, Node) and not isinstance(found.zero_point, Node)
            return Quantization(float(found.scale), int(found.zero_point), dtype, None, low, high)
        scales, zero_points = self._constant(found.scale), self._constant(found.zero_point)
        if scales is None or (zero_points is not None and bool(zero_points.any())):
            return None
        if zero_points is None and found.zero_point is not None:
            return None
        numbers = tuple(float(scale) for scale in scales.reshape(-1))
        if found.axis is None:
            return Quantization(numbers[0], 0, dtype, None, low, high) if len(numbers) == 1 else None
        return Quantization(numbers, 0, dtype, found.axis, low, high)

    def _find(self, node: Node) -> Quantization | None:
        if is_dequantize(node):
            return self.of_node(node)
        users = list(node.users)
        if users and all(is_quantize(user) for user in users):
            found = [self.of_node(user) for user in users]
            return found[0] if all(other == found[0] for other in found) else None
        if len(users) == 1 and users[0].target in CLAMPS:
            return self.of(users[0])
        if node.target is operator.getitem and isinstance(node.args[0], Node) and node.args[0].target in MOVES:
            return self.of(node.args[0])
        if node.target in MOVES and isinstance(node.args[0], Node):
            return self.of(node.args[0])
        return None
