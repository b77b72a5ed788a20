"""Helpers for the functions of the operator table, which build the OpenVINO model of a partition."""

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
    """Maps the nodes of a partition to values of the OpenVINO model; constants are made when they are first read."""

    def __init__(self, partition: PartitionView) -> None:
        self.partition = partition
        self.values: dict[Node, Any] = {}
        self.owners: dict[str, Node | None] = {}
        """The node that needs each operator, by OpenVINO's unique name for the operator; None for a parameter."""

    def value(self, argument: Any, like: Node | None = None) -> Any:
        """Return the value of an argument: a node, or a number, which becomes a constant of the dtype of `like`."""
        if not isinstance(argument, Node):
            assert like is not None
            return ops.constant(np.asarray(argument), OV_TYPES[like.meta["val"].dtype])
        if argument not in self.values:
            self.values[argument] = ops.constant(self.partition.constants[argument].contiguous().numpy())
        return self.values[argument]

    def own(self, results: Any, node: Node) -> None:
        """Note that `node` needs the operators that compute `results`, as far as no node before it does."""
        found = [*results] if isinstance(results, (list, tuple)) else [results]
        while found:
            value = found.pop()
            op = value.get_node() if isinstance(value, ov.Output) else value
            if op.get_name() not in self.owners:
                self.owners[op.get_name()] = node
                found += [op.input_value(index) for index in range(op.get_input_size())]


def ints(values: Sequence[int]) -> Any:
    """Make a 1-d constant of int64, for sizes and axes."""
    return ops.constant(np.asarray(list(values), dtype=np.int64))


def number(value: float) -> Any:
    """Make a scalar float32 constant."""
    return ops.constant(np.float32(value))


Build = Callable[[Builder, Node], Any]
"""Type of a function that builds the OpenVINO operators of a call and returns its result, or a list of its results."""


Row = OperatorRow[Build]
"""A row of the operator table; its `lower` is a `Build`."""


def shape(node: Any) -> tuple[Any, ...]:
    """Return the sizes of a node's result, which may be symbolic."""
    return tuple(node.meta["val"].shape)


def rank(node: Any) -> int:
    """Return the number of dims of a node's result."""
    return len(shape(node))


def axes(dims: Sequence[int] | None, node: Any) -> list[int]:
    """Convert negative `dims` of a node's result to numbers from 0 on; return all dims if `dims` is None or empty."""
    count = rank(node)
    return [dim % count for dim in dims] if dims else list(range(count))
