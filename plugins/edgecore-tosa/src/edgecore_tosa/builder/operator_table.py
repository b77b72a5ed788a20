"""The operator table of TOSA: the operators and constraints of a TOSA specification (profile and extensions)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.sdk import (
    Constants,
    NodeQuery,
    OperatorRow,
    OperatorTable,
    argument,
    contiguous_only,
    dtype_name,
    is_dequantize,
    is_quantize,
)
from edgecore_tosa.builder.builder import Builder, Value
from edgecore_tosa.quantization.parameters import Parameters, ReadConstant
from edgecore_tosa.quantization.scales import Quantization
from edgecore_tosa.schema import DType
from edgecore_tosa.spec import TosaSpec

FLOAT = (torch.float32, torch.float16)
QUANTIZED = (torch.float32,)
INTEGER = (torch.int8, torch.int16, torch.int32)
MAX_RANK = 6

Lower = Callable[[Builder], "Value | list[Value]"]
"""Type of a function that writes the operators of `Builder.node` and returns its value, or a list of its values."""


Lacks = Callable[[TosaSpec], "str | None"]
"""Function that returns why a specification lacks an operator, or None."""


def needs_real_numbers(spec: TosaSpec) -> str | None:
    """Return a reason if a specification lacks TOSA's profile FP; None if it has the profile."""
    return None if spec.floating else f"{spec} computes with integers only"


def needs_integers(spec: TosaSpec) -> str | None:
    """Return a reason if a specification lacks TOSA's profile INT; None if it has the profile."""
    return None if spec.integer else f"{spec} computes with real numbers only"


def needs_more_than_u55(spec: TosaSpec) -> str | None:
    """Return a reason if a specification has the limits of Ethos-U55 and U65; None otherwise."""
    return "Ethos-U55 and U65 lack this operator" if spec.is_u55 else None


@dataclass(frozen=True)
class Row(OperatorRow[Lower]):
    """A row of the operator table: an operator, its constraints, and `lower`, the function that writes TOSA for a node.

    Attributes:
        real: Arguments that may be floating-point constants while the other values are quantized.
        lacks: Function that returns why a specification lacks the operator, or None; None if all specifications have
            the operator.
        on_u55: The constraints for Ethos-U55 and U65 in words, if they differ from other targets' constraints.
    """

    real: tuple[str, ...] = ()
    lacks: Lacks | None = None
    on_u55: str = ""


class Query(NodeQuery):
    """An fx node that calls an operator, with the data that checks of the operator table need.

    Attributes:
        spec: The TOSA specification: profile and extensions.
        parameters: The quantization parameters of the program's values.
    """

    spec: TosaSpec
    parameters: Parameters

    def is_constant(self, node: Any) -> bool:
        """Return True for a constant, or for a node that dequantizes a constant."""
        return super().is_constant(node) or (is_dequantize(node) and super().is_constant(node.args[0]))

    def vals(self, except_arguments: Sequence[str] = ()) -> list[tuple[str, Any]]:
        """List the `val` of each input of an fx node, and of each result that is read, with a name for messages."""
        named = super().vals(except_arguments)
        several = self.node.meta["val"]
        if not isinstance(several, (tuple, list)):
            return named
        read = {user.args[1] for user in self.node.users if user.target is operator.getitem}
        inputs = named[: len(named) - len(several)]
        return inputs + [result for index, result in enumerate(named[len(inputs) :]) if index in read]

    def sizes(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor argument."""
        return tuple(self.argument(name).meta["val"].shape)


class TosaTable(OperatorTable[Lower]):
    """The operator table of one TOSA specification (profile and extensions).

    Args:
        rows: The rows of all specifications; rows of operators that `spec` lacks are dropped.
        spec: The specification.
    """

    def __init__(self, rows: tuple[Row, ...], spec: TosaSpec) -> None:
        reasons = {row.target: row.lacks(spec) if row.lacks else None for row in rows}
        super().__init__(
            (_specialized(row, spec) for row in rows if reasons[row.target] is None), (_static, _rank, contiguous_only)
        )
        self.spec = spec
        self._missing: dict[Any, str] = {target: reason for target, reason in reasons.items() if reason is not None}

    def missing_reason(self, node: Node) -> str:
        """Return why an operator without a row in this table is not supported."""
        return self._missing.get(node.target) or super().missing_reason(node)

    def inside_only(self, node: Node) -> str | None:
        """Return why a value cannot be an input or output of a partition, or None if it can.

        With only the profile INT, floating-point values must stay inside a partition. Dequantized values that other
        nodes read must stay inside with any profile, because another partition that reads them would not know their
        scale.
        """
        if is_dequantize(node) and any(user.op != "output" for user in node.users):
            return "real numbers that stand for integers"
        val = node.meta.get("val")
        vals = val if isinstance(val, (tuple, list)) else [val]
        is_real = any(isinstance(val, torch.Tensor) and val.dtype.is_floating_point for val in vals)
        return "real numbers" if is_real and not self.spec.floating else None

    def make_query(self, program: ExportedProgram, *, is_decomposed: bool = True) -> Callable[[Node], Query]:
        """Return a function that creates the `Query` of an fx node, by which the table checks the node."""
        constants = Constants(program)
        first = Query(program.graph.output_node(), constants, is_decomposed)
        first.spec = self.spec
        first.parameters = self.parameters(lambda node: constants.get(node) if constants.has(node) else None)
        return first.about

    def parameters(self, constant: ReadConstant) -> Parameters:
        """Return the quantization parameters of a program's values, as this TOSA specification needs them."""
        return Parameters(constant, self._real_arguments if self.spec.floating else None)

    def _real_arguments(self, node: Node) -> set[Node]:
        row = self.rows.get(node.target)
        names = (*row.any_dtype, *row.real) if isinstance(row, Row) else ()
        arguments = [argument(node, name) for name in names]
        return {argument for argument in arguments if isinstance(argument, Node)}

    def tensor_reason(self, query: NodeQuery, row: OperatorRow[Lower]) -> str | None:
        """Return why a tensor of an fx node has an unsupported dtype or quantization, or None if all are supported."""
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
        dtypes = {node.meta["val"].dtype for node in floats}
        if len(dtypes) > 1 and row.target is not torch.ops.aten._to_copy.default:
            return f"computes with {' and '.join(sorted(map(dtype_name, dtypes)))}"
        quantizations = {node: query.parameters.of(node) for node in floats}
        if self.spec.floating and not (self.spec.integer and all(quantizations.values())):
            return None  # accept: the specification supports floating point
        reasons = (self._quantization_reason(name, quantizations[node]) for node, name in floats.items())
        return next(filter(None, reasons), None)

    def _quantization_reason(self, name: str, quantization: Quantization | None) -> str | None:
        if quantization is None:
            return f"{name} is not quantized, and {self.spec} computes with integers only"
        if quantization.dtype == DType.INT16 and "int16" not in self.spec.extensions:
            return f"{name} is quantized to int16, for which {self.spec} lacks the extension int16"
        if quantization.dtype == DType.INT16 and quantization.zero_point:
            return f"{name} is quantized to int16 with a zero point other than 0"
        return None


def _specialized(row: Row, spec: TosaSpec) -> Row:
    """Restrict a row to the dtypes and constraints of a specification.

    Without the profile FP, float32 stays among the dtypes, because the program computes quantized values in float32.
    """
    dtypes = row.dtypes if spec.floating else tuple(dtype for dtype in row.dtypes if dtype != torch.float16)
    return replace(row, dtypes=dtypes, constraints=(spec.is_u55 and row.on_u55) or row.constraints)


def results(node: Node) -> list[Node]:
    """Return the nodes that hold an fx node's results: the node itself, or its `getitem` nodes if it returns a list."""
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
    """Return why a weight is not a constant of floats, or of int8 with zero point 0; return None if it is.

    Args:
        query: The call.
        name: The name of the argument that is the weight.
        *axes: The dims along which the weight may have a scale per index.
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
