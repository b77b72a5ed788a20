"""Helpers for the functions of the operator table, which translate nodes to ONNX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.fx import Node

from edgecore.sdk import LARGEST_SCORE, OperatorRow, PartitionView, reaches_softmax

if TYPE_CHECKING:  # only for annotations: the operator table must be importable without onnx
    from onnx import NodeProto, TensorProto

_INT4 = (-8, 7)


@dataclass(frozen=True)
class Scale:
    """Per-tensor quantization: value = (integer - zero) * scale, with integers from `low` to `high`."""

    scale: float
    zero: int
    dtype: str
    low: int
    high: int

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and largest representable value."""
        return (self.low - self.zero) * self.scale, (self.high - self.zero) * self.scale


class Builder:
    """Collects the nodes and constants of an ONNX graph. Names are numbered, so equal partitions give equal graphs.

    Attributes:
        partition: The partition.
        values: For each translated node: the name of its result, or a list of names.
        scales: The quantization of values that a DequantizeLinear computes.
        nodes: The ONNX nodes.
        initializers: The constants.
        owners: Maps the name of an ONNX node to the partition's node for which the ONNX node was added.
        owner: The node that is being translated.
    """

    def __init__(self, partition: PartitionView) -> None:
        self.partition = partition
        self.values: dict[Node, Any] = {}
        self.scales: dict[str, Scale] = {}
        self.nodes: list[NodeProto] = []
        self.initializers: list[TensorProto] = []
        self.owners: dict[str, Node] = {}
        self.owner: Node | None = None

    def add(self, op_type: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Add an ONNX node; return the name of its output, or a list of names if it has several `outputs`."""
        from onnx import helper

        name = f"{op_type}_{len(self.nodes)}"
        names = [f"{name}_{index}" for index in range(outputs)]
        self.nodes.append(helper.make_node(op_type, list(inputs), names, name=name, **attributes))
        if self.owner is not None:
            self.owners[name] = self.owner
        return names[0] if outputs == 1 else names

    def array(self, values: Any, dtype: Any = None) -> str:
        """Add a constant; return its name."""
        from onnx import numpy_helper

        name = f"constant_{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.array(values, dtype, order="C"), name))
        return name

    def weight(self, integers: Any, low: int, high: int) -> str:
        """Add a constant of integers from `low` to `high`, with dtype INT4 if they fit into 4 bits; return its name."""
        from onnx import TensorProto, helper

        if low < _INT4[0] or high > _INT4[1] or integers.dtype != np.int8:
            return self.array(integers)
        name = f"constant_{len(self.initializers)}"
        self.initializers.append(helper.make_tensor(name, TensorProto.INT4, integers.shape, integers.flatten()))
        return name

    def ints(self, values: Sequence[int]) -> str:
        """Add an int64 constant of sizes or axes; return its name."""
        return self.array(np.asarray(list(values), np.int64).reshape(len(values)))

    def number(self, value: float, like: str = "") -> str:
        """Add a scalar constant; if the value named `like` is quantized, add an exactly equal quantized constant."""
        scale = self.scales.get(like)
        if scale is None:
            is_mask = self.owner is not None and reaches_softmax(self.owner)
            return self.array(clamped(torch.tensor(value)).item() if is_mask else value, np.float32)
        top = np.iinfo(scale.dtype).max - np.iinfo(scale.dtype).min
        integer, zero = (0, 0) if value == 0 else (top, 0) if value > 0 else (0, top)
        low = np.iinfo(scale.dtype).min
        exact = Scale(abs(value) / top or 1.0, zero + low, scale.dtype, low, low + top)
        return self.dequantize(self.array(integer + low, scale.dtype), exact)

    def value(self, argument: Any, like: str = "") -> str:
        """Return the name of an argument's value; the argument is a node or a number.

        If the value named `like` is quantized, numbers and finite floating-point constants are quantized, too.
        """
        if not isinstance(argument, Node):
            return self.number(float(argument), like)
        if argument not in self.values:
            tensor = self.partition.constants[argument].contiguous()
            if like in self.scales and tensor.dtype == torch.float32 and bool(tensor.isfinite().all()):
                return self.quantized_constant(tensor.numpy(), self.scales[like].dtype)
            self.values[argument] = self.array((clamped(tensor) if reaches_softmax(argument) else tensor).numpy())
        name: str = self.values[argument]
        return name

    def quantized_constant(self, values: Any, dtype: str, symmetric: bool = False) -> str:
        """Quantize a floating-point constant to `dtype` with one scale; add it and its DequantizeLinear."""
        info = np.iinfo(dtype)
        low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
        if symmetric:
            high = max(-low, high)
            low = -high
        step = float(np.float32((high - low) / (info.max - info.min))) or 1.0
        zero = int(np.clip(round(info.min - low / step), info.min, info.max))
        integers = np.clip(np.rint(values / step) + zero, info.min, info.max).astype(dtype)
        return self.dequantize(self.array(integers), Scale(step, zero, dtype, info.min, info.max))

    def quantize(self, value: str, scale: Scale) -> str:
        """Add a QuantizeLinear node with one scale for the whole tensor; return the name of its result."""
        factors = self.array(scale.scale, np.float32), self.array(scale.zero, scale.dtype)
        name: str = self.add("QuantizeLinear", value, *factors)
        return name

    def dequantize(self, value: str, scale: Scale) -> str:
        """Add a DequantizeLinear node with one scale for the whole tensor; return the name of its result."""
        factors = self.array(scale.scale, np.float32), self.array(scale.zero, scale.dtype)
        name: str = self.add("DequantizeLinear", value, *factors)
        self.scales[name] = scale
        return name

    def requantize(self, value: str, scale: Scale) -> str:
        """Round a value to the integers of `scale` and back, by a QuantizeLinear and a DequantizeLinear node."""
        return self.dequantize(self.quantize(value, scale), scale)

    def between(self, value: str, low: float, high: float, like: str) -> str:
        """If the value named `like` is quantized, round a value in [`low`, `high`] to integers and back."""
        scale = self.scales.get(like)
        if scale is None:
            return value
        info = np.iinfo(scale.dtype)
        step = (high - low) / (info.max - info.min)
        return self.requantize(
            value, Scale(step, round(info.min - low / step), scale.dtype, int(info.min), int(info.max))
        )


def clamped(mask: torch.Tensor) -> torch.Tensor:
    """Clamp the finite elements of a mask or of scores, so that these and scores + mask stay finite in fp16."""
    if not mask.is_floating_point():
        return mask
    return torch.where(mask.isfinite(), mask.clamp(-LARGEST_SCORE, LARGEST_SCORE), mask)


Build = Callable[[Builder, Node], Any]
"""Adds the ONNX nodes of a call, and returns the name of its result, or a list of names."""

Row = OperatorRow[Build]
"""A row of the operator table; its `lower` is a `Build`."""
