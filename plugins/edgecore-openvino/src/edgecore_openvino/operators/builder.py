"""Build the OpenVINO model of a partition: helpers for the functions of the operator table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import openvino as ov
import torch
from openvino import opset15 as ops
from torch.fx import Node

from edgecore.sdk import OperatorRow, PartitionView

OV_TYPES = {
    torch.float32: ov.Type.f32, torch.int8: ov.Type.i8, torch.uint8: ov.Type.u8, torch.int32: ov.Type.i32,
    torch.int64: ov.Type.i64, torch.bool: ov.Type.boolean, torch.float64: ov.Type.f64,
}  # fmt: skip


class Builder:
    """Maps nodes of a partition to OpenVINO's values; constants are made when they are first read."""

    def __init__(self, part: PartitionView) -> None:
        self.part = part
        self.values: dict[Node, Any] = {}

    def value(self, argument: Any, like: Node | None = None) -> Any:
        """Return the value of an argument of a call: a node, or a number, which gets the dtype of node `like`."""
        if not isinstance(argument, Node):
            assert like is not None
            return ops.constant(np.asarray(argument), OV_TYPES[like.meta["val"].dtype])
        if argument not in self.values:
            self.values[argument] = ops.constant(self.part.constants[argument].contiguous().numpy())
        return self.values[argument]


def ints(values: Sequence[int]) -> Any:
    """Make a constant of 64-bit integers with one dim: sizes, axes."""
    return ops.constant(np.asarray(list(values), dtype=np.int64))


def number(value: float) -> Any:
    """Make a scalar constant of float32."""
    return ops.constant(np.float32(value))


Build = Callable[[Builder, Node], Any]
"""Returns the value of a call node, or a list of values for an operator with several results."""


Row = OperatorRow[Build]
"""A row of the operator table; `lower` builds OpenVINO's operators for a call."""


def shape(node: Any) -> tuple[Any, ...]:
    """Return the sizes of a node's result, which may be symbolic."""
    return tuple(node.meta["val"].shape)


def rank(node: Any) -> int:
    """Return the number of dims of a node's result."""
    return len(shape(node))


def axes(dims: Sequence[int] | None, node: Any) -> list[int]:
    """Return `dims` as numbers from 0; all dims if there are none."""
    count = rank(node)
    return [dim % count for dim in dims] if dims else list(range(count))
