"""Find the quantization parameters of the values of an edge program in its quantize and dequantize nodes.

Between a dequantize and a quantize node the program computes in floating point, but TOSA in integers. So each
floating-point value needs quantization parameters, from the dequantize node that makes the value, or from the quantize
nodes that read it. If only a clamp reads a value, the value has the parameters of the clamp's result, because the
operator that computes the value can saturate in the same way. Operators that only move data keep the parameters of
their input.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from edgecore.sdk import argument, is_dequantize, is_quantize, parameters_of
from edgecore.sdk.annotations import CLAMPS, Role, edge_forms, operators, with_roles
from edgecore_tosa.quantization.attention import is_mask
from edgecore_tosa.quantization.scales import Quantization
from edgecore_tosa.schema import DType

aten = torch.ops.aten

MOVES = edge_forms(
    with_roles(
        *(Role.VIEW, Role.VIEW_VARIANT, Role.PART, Role.REPEAT, Role.REORDER, Role.PAD, Role.MAX_POOL, Role.GATHER),
        *(Role.SPLIT, Role.EXTREME_AND_INDEX),
    )
    | operators("clone upsample_nearest2d.vec _upsample_nearest_exact2d.vec")
)
"""Operators whose result consists of elements of their first input, or zeros."""

JOINS = with_roles(Role.JOIN)
"""Operators whose result consists of the elements of all inputs."""
NORMS = frozenset({aten.native_layer_norm.default, aten.native_group_norm.default})
"""Operators whose first result is the normalized value, and whose other results are statistics."""

_INTEGERS = {torch.int8: DType.INT8, torch.int16: DType.INT16, torch.int32: DType.INT32}

ReadConstant = Callable[[Any], "torch.Tensor | None"]
"""A function that returns the tensor of a constant node, and None for other nodes."""


RealArguments = Callable[[Node], "set[Node]"]
"""A function that returns the arguments of a call that may be floating-point constants although the call is quantized.
"""


class Parameters:
    """The quantization parameters of the values of a program.

    Args:
        constant: Returns the tensor of a constant node.
        real_arguments: Returns the arguments of a call that may be floating-point constants; a call computes with
            integers if its other inputs are all quantized. None if the target supports only integers.
    """

    def __init__(self, constant: ReadConstant, real_arguments: RealArguments | None = None) -> None:
        self._constant = constant
        self._real_arguments = real_arguments
        self._known: dict[Node, Quantization | None] = {}
        self._meanings: dict[Node, Quantization | None] = {}

    def of(self, node: Node) -> Quantization | None:
        """Return the parameters of a floating-point value; None if no quantize or dequantize node determines them."""
        if node not in self._known:
            meaning = self._meaning(node)
            self._known[node] = meaning if meaning is not None and self._has_integers(node) else None
        return self._known[node]

    def _has_integers(self, node: Node) -> bool:
        """Return True if an fx node can compute with integers: its target has no floats or its inputs are quantized."""
        if self._real_arguments is None or is_dequantize(node):
            return True
        if node.op != "call_function":
            return False
        real = {source for source in self._real_arguments(node) if self._constant(source) is not None}
        sources = [source for source in node.all_input_nodes if source not in real and _is_floating(source)]
        return all(self.of(source) is not None for source in sources)

    def of_node(self, node: Node) -> Quantization | None:
        """Return the quantization parameters of a quantize or dequantize node; None if they are not constants."""
        stored = parameters_of(node)
        if stored is None or stored.dtype not in _INTEGERS:
            return None
        dtype, low, high = _INTEGERS[stored.dtype], stored.quant_min, stored.quant_max
        if stored.axis is None and stored.is_per_tensor:
            assert not isinstance(stored.scale, Node) and not isinstance(stored.zero_point, Node)
            return Quantization(float(stored.scale), int(stored.zero_point), dtype, None, low, high)
        scales, zero_points = self._constant(stored.scale), self._constant(stored.zero_point)
        if scales is None or (zero_points is not None and bool(zero_points.any())):
            return None
        if zero_points is None and stored.zero_point is not None:
            return None
        numbers = tuple(float(scale) for scale in scales.reshape(-1))
        if stored.axis is None:
            return Quantization(numbers[0], 0, dtype, None, low, high) if len(numbers) == 1 else None
        return Quantization(numbers, 0, dtype, stored.axis, low, high)

    def _meaning(self, node: Node) -> Quantization | None:
        if node not in self._meanings:
            self._meanings[node] = self._find(node)
        return self._meanings[node]

    def _find(self, node: Node) -> Quantization | None:
        if is_dequantize(node):
            return self.of_node(node)
        users = list(node.users)
        if node.target in NORMS:
            return self._meaning(users[0]) if len(users) == 1 else None
        if is_mask(node):
            return self._meaning(node.args[0])  # type: ignore[arg-type]  # `node.args[0]` is a node
        if users and all(is_quantize(user) for user in users):
            first, *others = [self.of_node(user) for user in users]
            return first if all(other == first for other in others) else None
        if len(users) == 1 and users[0].target in CLAMPS:
            return self._meaning(users[0])
        if len(users) == 1 and (factor := positive_factor(users[0])) is not None:
            scaled = self._meaning(users[0])
            return None if scaled is None else scaled.scaled(1 / factor)
        if node.target is operator.getitem and isinstance(node.args[0], Node) and node.args[0].target in MOVES:
            return self._meaning(node.args[0])
        if node.target in JOINS or (node.target in MOVES and isinstance(node.args[0], Node)):
            sources = node.all_input_nodes if node.target in JOINS else [node.args[0]]
            first, *others = map(self._meaning, sources)  # type: ignore[arg-type]  # all elements of `sources` are nodes
            is_one = all(other == first for other in others) and (first is None or first.axis is None)
            return first if is_one else None  # refuse scales along dim `axis`: a permute might move this dim
        return None


def _is_floating(node: Node) -> bool:
    val = node.meta["val"]
    first = val[0] if isinstance(val, (tuple, list)) else val
    return isinstance(first, torch.Tensor) and first.dtype.is_floating_point


def positive_factor(node: Node) -> float | None:
    """Return the positive factor by which an fx node multiplies a tensor (1 / number for a division), or None."""
    if node.target not in _PRODUCTS and node.target not in _QUOTIENTS:
        return None
    number = argument(node, "other")
    if not isinstance(number, (int, float)) or not 0 < number < math.inf:
        return None
    return float(number) if node.target in _PRODUCTS else 1 / number


_PRODUCTS = frozenset({aten.mul.Scalar, aten.mul.Tensor})
_QUOTIENTS = frozenset({aten.div.Scalar, aten.div.Tensor})
