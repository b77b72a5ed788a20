"""The operator table of TOSA: which calls a profile of TOSA can compute."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.sdk import (
    Constants,
    NodeQuery,
    OperatorRow,
    OperatorTable,
    contiguous_only,
    dtype_name,
    is_dequantize,
    is_quantize,
)
from edgecore_tosa.builder import Builder, Value
from edgecore_tosa.parameters import Parameters
from edgecore_tosa.quantization import Quantization
from edgecore_tosa.schema import DType
from edgecore_tosa.spec import TosaSpec

FLOAT = (torch.float32, torch.float16)
QUANTIZED = (torch.float32,)
INTEGER = (torch.int8, torch.int16, torch.int32)
MAX_RANK = 6

Lower = Callable[[Builder], "Value | list[Value]"]
"""Type of a function that writes the operators of `Builder.node` and returns its value, or a list of its values."""


@dataclass(frozen=True)
class Row(OperatorRow[Lower]):
    """A row of the operator table; its `lower` is a `Lower`.

    Attributes:
        real: Names of arguments that may be constants of real numbers where the other values are quantized.
    """

    real: tuple[str, ...] = ()


class Query(NodeQuery):
    """A call that the table checks.

    Attributes:
        spec: The profile.
        parameters: The quantization of the program's values.
    """

    spec: TosaSpec
    parameters: Parameters

    def is_constant(self, node: Any) -> bool:
        """Return True for a constant, and for a dequantize node of a constant."""
        return super().is_constant(node) or (is_dequantize(node) and super().is_constant(node.args[0]))

    def sizes(self, name: str) -> tuple[int, ...]:
        """Return the sizes of the tensor that is an argument."""
        return tuple(self.argument(name).meta["val"].shape)


class TosaTable(OperatorTable[Lower]):
    """edgecore's `OperatorTable` for a specification of TOSA.

    Args:
        rows: The rows.
        spec: The profile.
    """

    def __init__(self, rows: tuple[Row, ...], spec: TosaSpec) -> None:
        super().__init__(rows, (_static, _rank, contiguous_only))
        self.spec = spec

    def inside_only(self, node: Node) -> str | None:
        """Say that real numbers must not cross the border of a partition if the profile has only integers."""
        val = node.meta.get("val")
        vals = val if isinstance(val, (tuple, list)) else [val]
        is_real = any(isinstance(one, torch.Tensor) and one.dtype.is_floating_point for one in vals)
        return "real numbers" if is_real and not self.spec.floating else None

    def make_query(self, program: ExportedProgram, *, is_decomposed: bool = True) -> Callable[[Node], Query]:
        """Return the function that makes the `Query` of a call."""
        constants = Constants(program)
        first = Query(program.graph.output_node(), constants, is_decomposed)
        first.spec = self.spec
        first.parameters = Parameters(lambda node: constants.get(node) if constants.has(node) else None)
        return first.about

    def tensor_reason(self, query: NodeQuery, row: OperatorRow[Lower]) -> str | None:
        """Return why the dtype or quantization of a tensor of a call is not supported, or None."""
        assert isinstance(query, Query)
        reason = super().tensor_reason(query, row)
        if reason or is_quantize(query.node) or is_dequantize(query.node):
            return reason
        assert isinstance(row, Row)
        real = {node for node in query.nodes_of(row.real) if query.constants.has(node)}
        exempt = query.nodes_of(row.any_dtype) | real
        sources = [source for source in query.node.all_input_nodes if source not in exempt]
        named = [
            *((f"input {node.name}", node) for node in sources),
            *(("its result", node) for node in results(query.node)),
        ]
        floats = {node: name for name, node in named if node.meta["val"].dtype.is_floating_point}
        found = {node: query.parameters.of(node) for node in floats}
        if self.spec.floating and not any(found.values()):
            return None
        return next(filter(None, (self._quantization_reason(floats[node], found[node]) for node in floats)), None)

    def _quantization_reason(self, name: str, quantization: Quantization | None) -> str | None:
        if quantization is None and self.spec.floating:
            return f"{name} is not quantized, but another value of the call is"
        if quantization is None:
            return f"{name} is not quantized, and {self.spec} computes with integers only"
        if not self.spec.integer:
            return f"{name} is quantized, and {self.spec} computes with real numbers only"
        if quantization.dtype == DType.INT16 and "int16" not in self.spec.extensions:
            return f"{name} is quantized to int16, for which {self.spec} lacks the extension int16"
        if quantization.dtype == DType.INT16 and quantization.zero_point:
            return f"{name} is quantized to int16 with a zero point other than 0"
        return None


def results(node: Node) -> list[Node]:
    """Return the nodes that are the results of a call: the call, or the `getitem` nodes of a list of results."""
    if not isinstance(node.meta["val"], (tuple, list)):
        return [node]
    return [user for user in node.users if user.target is operator.getitem]


def _static(query: NodeQuery) -> str | None:
    for name, val in query.vals():
        if not isinstance(val, torch.Tensor):
            return f"{name} is not a tensor"
        if not all(isinstance(size, int) for size in val.shape):
            return f"{name} has a symbolic size"
        if 0 in val.shape:
            return f"{name} has no elements"
    return None


def _rank(query: NodeQuery) -> str | None:
    for name, val in query.vals():
        if val.dim() > MAX_RANK:
            return f"{name} has {val.dim()} dims, more than {MAX_RANK}"
    return None


def symmetric_weight(query: Query, name: str, *axes: int) -> str | None:
    """Return why a weight is not a constant of signed integers with zero point 0, or None; floating-point passes.

    Args:
        query: The call.
        name: The argument.
        *axes: The dims that may have a scale for each index.
    """
    node = query.argument(name)
    if not query.is_constant(node):
        return f"its {name} is not a constant"
    quantization = query.parameters.of(node)
    if quantization is None:
        return None
    if quantization.zero_point:
        return f"its {name} has a zero point other than 0"
    if quantization.dtype != DType.INT8:
        return f"its {name} is quantized to {dtype_name(node.args[0].meta['val'].dtype)}, not int8"
    if quantization.axis is not None and quantization.axis not in axes:
        return f"its {name} has scales for dim {quantization.axis}"
    return None
