"""Quantized int8 values in a graph: their parameters, and the limits of fused activations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from edgecore.ir.op_args import argument
from edgecore.passes.quantized import is_dequantize, parameters_of

aten = torch.ops.aten


@dataclass(frozen=True)
class Int8:
    """An int8 value: the node that reads or makes it, and its parameters, as in `QuantizationParameters`."""

    node: Node
    scale: float
    zero_point: int
    low: int
    high: int

    def same_parameters(self, other: Int8) -> bool:
        """Return True if equal integers of both values stand for equal numbers."""
        return self.scale == other.scale and self.zero_point == other.zero_point

    def quantize(self, number: float) -> int:
        """Return the integer of a number, which may be infinite."""
        if math.isinf(number):
            return self.high if number > 0 else self.low
        return max(self.low, min(self.high, round(number / self.scale) + self.zero_point))


def limits_of(node: Any) -> Int8 | None:
    """Return the value of a quantize or dequantize node of int8 with one scale; None for other nodes.

    Its node is the quantize node itself, or what the dequantize node reads.
    """
    parameters = parameters_of(node) if isinstance(node, Node) and node.op == "call_function" else None
    if parameters is None or not parameters.is_per_tensor or parameters.dtype != torch.int8:
        return None
    value = node.args[0] if is_dequantize(node) else node
    scale, zero_point = float(parameters.scale), int(parameters.zero_point)  # type: ignore[arg-type]
    if not -128 <= zero_point <= 127 or not scale > 0:
        return None
    return Int8(value, scale, zero_point, parameters.quant_min, parameters.quant_max)


def input_value(node: Any) -> Int8 | None:
    """Return the int8 value that a dequantize node reads; None for other nodes, and for other layouts than row-major."""
    value = limits_of(node) if is_dequantize(node) else None
    return value if value is not None and value.node.meta["val"].is_contiguous() else None


def without_clamps(value: Any) -> tuple[Node, tuple[float, float]]:
    """Return the node before the clamps that end in `value`, and the limits that all these clamps set.

    The clamps are the only readers of what they clamp.
    """
    low, high = -math.inf, math.inf
    while (bounds := _bounds(value)) is not None and len(value.all_input_nodes[0].users) == 1:
        # `value` runs before the clamps that were found already.
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


def result_range(result: Int8, bounds: tuple[float, float]) -> tuple[int, int, int]:
    """Return the zero point and the limits of a result whose real values are clamped to `bounds`."""
    return result.zero_point, result.quantize(bounds[0]), result.quantize(bounds[1])
