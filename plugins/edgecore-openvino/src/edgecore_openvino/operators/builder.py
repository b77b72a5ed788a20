"""One partition as an OpenVINO model: what the functions of the operator table build with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import openvino as ov
import torch
from openvino import opset15 as ops
from torch.fx import Node

from edgecore.partition import OperatorRow, Part

OV_TYPES = {
    torch.float32: ov.Type.f32, torch.int8: ov.Type.i8, torch.uint8: ov.Type.u8, torch.int32: ov.Type.i32,
    torch.int64: ov.Type.i64, torch.bool: ov.Type.boolean, torch.float64: ov.Type.f64,
}  # fmt: skip


class Builder:
    """OpenVINO's values by the nodes that they stand for; constants appear when they are first read."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.values: dict[Node, Any] = {}

    def value(self, argument: Any, like: Node | None = None) -> Any:
        """The value of an argument of a call: a node, or a number in the dtype of node `like`."""
        if not isinstance(argument, Node):
            assert like is not None
            return ops.constant(np.asarray(argument), OV_TYPES[like.meta["val"].dtype])
        if argument not in self.values:
            self.values[argument] = ops.constant(self.part.constants[argument].contiguous().numpy())
        return self.values[argument]


def ints(values: Sequence[int]) -> Any:
    """A constant of 64-bit integers, one dim: sizes, axes."""
    return ops.constant(np.asarray(list(values), dtype=np.int64))


def number(value: float) -> Any:
    """A scalar constant of float32."""
    return ops.constant(np.float32(value))


Build = Callable[[Builder, Node], Any]
"""The value of a call node; a list of them for an operator with several results."""


@dataclass(frozen=True, kw_only=True)
class Row(OperatorRow):
    """A row of the operator table, and how its operator is said to OpenVINO."""

    build: Build


def arguments(node: Node) -> dict[str, Any]:
    """The arguments of a call by the names of the operator's schema, defaults filled in."""
    given = dict(node.kwargs)
    target: Any = node.target
    for index, argument in enumerate(target._schema.arguments):
        if argument.name not in given:
            given[argument.name] = node.args[index] if index < len(node.args) else argument.default_value
    return given


def shape(node: Any) -> tuple[Any, ...]:
    """Sizes of a node's result, symbolic ones among them."""
    return tuple(node.meta["val"].shape)


def rank(node: Any) -> int:
    """Number of dims of a node's result."""
    return len(shape(node))


def axes(dims: Sequence[int] | None, node: Any) -> list[int]:
    """Dims counted from the front; all if there are none."""
    count = rank(node)
    return [dim % count for dim in dims] if dims else list(range(count))
