"""Quantized int8 and int16 values in a graph: their parameters, their arithmetic, and calls of integer operators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from edgecore.ir.graph import Editor
from edgecore.ir.op_args import argument
from edgecore.ir.operators.integer_operators import INT8, INT16, Arithmetic
from edgecore.passes.quantized import is_dequantize, parameters_of

aten = torch.ops.aten


_ARITHMETICS = {arithmetic.dtype: arithmetic for arithmetic in (INT8, INT16)}


@dataclass(frozen=True)
class Integers:
    """A quantized int8 or int16 tensor: its node, arithmetic, scale, zero point, smallest and largest integer."""

    node: Node
    arithmetic: Arithmetic
    scale: float
    zero_point: int
    low: int
    high: int

    def same_parameters(self, other: Integers) -> bool:
        """Return True if the same integer represents the same number in both values."""
        return self.scale == other.scale and self.zero_point == other.zero_point

    def quantize(self, number: float) -> int:
        """Return the integer that represents a number; infinity becomes the largest or smallest integer."""
        if math.isinf(number):
            return self.high if number > 0 else self.low
        return max(self.low, min(self.high, round(number / self.scale) + self.zero_point))

    def dequantize(self, integers: torch.Tensor) -> torch.Tensor:
        """Return the numbers that integers represent, in float32."""
        return (integers - self.zero_point).float() * self.scale

    def limits(self, bounds: tuple[float, float]) -> tuple[int, int]:
        """Return the smallest and largest integer of a value that is clamped to `bounds`."""
        high = self.quantize(bounds[1])
        # if bounds[0] > bounds[1], both limits are the upper bound, as in `clamp`
        return min(self.quantize(bounds[0]), high), high


def limits_of(node: Any) -> Integers | None:
    """Return the int8 or int16 value that a node with a single scale quantizes or dequantizes; None for other nodes.

    The value's node is the quantize node, or the operand of the dequantize node.
    """
    parameters = parameters_of(node) if isinstance(node, Node) and node.op == "call_function" else None
    arithmetic = _ARITHMETICS.get(parameters.dtype) if parameters is not None and parameters.is_per_tensor else None
    if parameters is None or arithmetic is None:
        return None
    value = node.args[0] if is_dequantize(node) else node
    scale, zero_point = float(parameters.scale), int(parameters.zero_point)  # type: ignore[arg-type]
    is_valid = -128 <= zero_point <= 127 if arithmetic.has_zero_points else zero_point == 0
    if not is_valid or not scale > 0:
        return None
    return Integers(value, arithmetic, scale, zero_point, parameters.quant_min, parameters.quant_max)


def input_value(node: Any, dtype: torch.dtype) -> Integers | None:
    """Return the value of `dtype` that a dequantize node reads, if it is in row-major order; None for other nodes."""
    value = limits_of(node) if is_dequantize(node) else None
    if value is None or value.arithmetic.dtype != dtype or not value.node.meta["val"].is_contiguous():
        return None
    return value


def without_clamps(value: Any) -> tuple[Node, tuple[float, float]]:
    """Return the node before the chain of clamps that ends in `value`, and the intersection of the clamps' limits.

    A clamp belongs to the chain only if nothing else reads its operand.
    """
    low, high = -math.inf, math.inf
    while (bounds := _bounds(value)) is not None and len(value.all_input_nodes[0].users) == 1:
        # Walk backwards: this clamp runs before the clamps seen so far, so their limits apply to its result.
        low, high = (max(low, min(bounds[0], high)), min(high, max(bounds[1], low)))
        value = value.args[0]
    return value, (low, high)


def _bounds(node: Node) -> tuple[float, float] | None:
    if node.target is aten.relu.default:
        return 0.0, math.inf
    if node.target is aten.hardtanh.default:
        return argument(node, "min_val"), argument(node, "max_val")
    if node.target is not aten.clamp.default:
        return None
    low, high = argument(node, "min"), argument(node, "max")
    if not all(bound is None or isinstance(bound, (int, float)) for bound in (low, high)):
        return None
    return -math.inf if low is None else low, math.inf if high is None else high


def call_operator(
    editor: Editor,
    name: str,
    arguments: Sequence[Any],
    sources: Sequence[Integers],
    factors: Sequence[int],
    result: Integers,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Node:
    """Insert a call of edgecore's integer operator `name` for the dtype of `result`.

    Args:
        editor: The editor, which inserts the call at its position.
        name: Name of the operator without the dtype, such as `add`.
        arguments: The arguments before the zero points of the operands.
        sources: The operands whose zero points the operator takes as arguments; int16 operators take none.
        factors: The arguments after these zero points: multipliers, shifts and the like.
        result: The value that the operator computes.
        bounds: Limits of the result before quantization, from a clamp that follows.
    """
    zero_points = [source.zero_point for source in sources], [result.zero_point]
    before, after = zero_points if result.arithmetic.has_zero_points else ([], [])
    target = getattr(torch.ops.edgecore, f"{result.arithmetic.prefix}_{name}").default
    return editor.call(target, *arguments, *before, *factors, *after, *result.limits(bounds))
