"""Helpers for the functions of the operator table, which translate nodes to an OpenVINO model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import openvino as ov
import torch
from openvino import opset15 as ops
from torch.fx import Node

from edgecore.sdk import LARGEST_SCORE, OperatorRow, PartitionView, is_dequantize

OV_TYPES = {
    torch.float32: ov.Type.f32, torch.int8: ov.Type.i8, torch.uint8: ov.Type.u8, torch.int32: ov.Type.i32,
    torch.int64: ov.Type.i64, torch.bool: ov.Type.boolean, torch.float64: ov.Type.f64, torch.float16: ov.Type.f16,
}  # fmt: skip

FLOATS = (torch.float32, torch.float16)
"""Floating-point dtypes of operators. All floats in the OpenVINO model are float32; only arguments of the delegate and
stored constants are float16. OpenVINO itself computes in the precision `Builder.precision`."""

LARGEST = {"f16": LARGEST_SCORE, "bf16": 3.19e38}
"""Clamping limit by precision: sums of a clamped value and numbers up to a sixteenth of the limit stay finite."""

_LARGEST_BESIDE_INTEGERS = 1e30
"""Clamping limit of float32 masks. OpenVINO divides a mask by the scale of the integers to which the mask is added."""


class Builder:
    """Maps nodes of a partition to values of the OpenVINO model; a constant is created when an operator first reads it.

    With `half_weights`, float32 constants with two or more dims are stored as float16. `precision` is the precision in
    which OpenVINO computes.
    """

    def __init__(self, partition: PartitionView, half_weights: bool = False, precision: str = "f32") -> None:
        self.partition = partition
        self.half_weights = half_weights
        self.precision = precision
        self.largest = LARGEST.get(precision)
        if self.largest is None and any(is_dequantize(node) for node in partition.calls):
            self.largest = _LARGEST_BESIDE_INTEGERS
        self.values: dict[Node, Any] = {}
        self.owners: dict[str, Node | None] = {}
        """The node that needs each operator, by OpenVINO's unique operator name; None for an input of the model."""

    def value(self, argument: Any, like: Node | None = None) -> Any:
        """Return the OpenVINO value of a node or a number; a number becomes a constant in the dtype of node `like`."""
        if not isinstance(argument, Node):
            assert like is not None
            dtype = like.meta["val"].dtype
            if dtype not in FLOATS:
                return ops.constant(np.asarray(argument), OV_TYPES[dtype])
            return number(float(self._held(torch.tensor(argument, dtype=torch.float64))))
        if argument not in self.values:
            tensor = self._held(self.partition.constants[argument])
            if self.half_weights and tensor.dim() > 1 and tensor.dtype == torch.float32 and _fits_half(tensor):
                tensor = tensor.half()
            self.values[argument] = whole(ops.constant(tensor.contiguous().numpy()), tensor.dtype)
        return self.values[argument]

    def in_float32(self, op: Any) -> Any:
        """Let OpenVINO compute an operator in float32, whatever the model's precision is; return the operator."""
        if self.precision != "f32":
            op.get_rt_info()["precise_0"] = ""
        return op

    def scores(self, value: Any) -> Any:
        """Keep scores finite: clamp finite numbers of a value that a softmax reads directly or after an addition."""
        if self.largest is None:
            return value
        is_infinite = self.in_float32(ops.equal(self.in_float32(ops.absolute(value)), number(np.inf)))
        return self.in_float32(
            ops.select(is_infinite, value, self.in_float32(ops.clamp(value, -self.largest, self.largest)))
        )

    def own(self, results: Any, node: Node) -> None:
        """Record `node` as owner of the OpenVINO operators that compute `results`, if no earlier node owns them."""
        pending = [*results] if isinstance(results, (list, tuple)) else [results]
        while pending:
            value = pending.pop()
            op = value.get_node() if isinstance(value, ov.Output) else value
            if op.get_name() not in self.owners:
                self.owners[op.get_name()] = node
                sources = [op.input_value(index) for index in range(op.get_input_size())]
                # In a precision below f32, OpenVINO would replace an infinite constant by the largest finite number, so
                # compute the operator that reads it in f32.
                if self.precision != "f32" and any(map(_has_infinity, sources)):
                    self.in_float32(op)
                pending += sources

    def _held(self, tensor: torch.Tensor) -> torch.Tensor:
        """Clamp the finite numbers of a constant to the range of the model's precision, so that they stay finite."""
        if self.largest is None or not tensor.is_floating_point():
            return tensor
        return torch.where(tensor.isfinite(), tensor.clamp(-self.largest, self.largest), tensor)


def _has_infinity(value: Any) -> bool:
    op = value.get_node()
    if op.get_type_name() != "Constant" or value.get_element_type() != ov.Type.f32:
        return False
    return bool(np.isinf(op.get_data()).any())


def _fits_half(tensor: torch.Tensor) -> bool:
    return bool(tensor.abs().max() <= torch.finfo(torch.float16).max)


def whole(value: Any, dtype: torch.dtype) -> Any:
    """Convert a float16 argument or constant to float32; return other values unchanged."""
    return ops.convert(value, "f32") if dtype == torch.float16 else value


def ints(values: Sequence[int]) -> Any:
    """Create a 1-d int64 constant for sizes or axes."""
    return ops.constant(np.asarray(list(values), dtype=np.int64))


def number(value: float) -> Any:
    """Create a scalar float32 constant."""
    return ops.constant(np.float32(value))


Build = Callable[[Builder, Node], Any]
"""Type of a function that builds the OpenVINO operators of a call and returns its result, or a list of its results."""


Row = OperatorRow[Build]
"""A row of the operator table; its `lower` is a `Build`."""
