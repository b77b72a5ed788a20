"""XNNPACK's operator table: edgecore's `OperatorTable` with checks of weights and symbolic sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.sdk import (
    Constants,
    MutableBuffer,
    NodeQuery,
    OperatorRow,
    OperatorTable,
    dim_order,
    is_dequantize,
    mutable_buffers,
    operator_name,
)
from edgecore.sdk.torch_compat import OpOverload
from edgecore_xnnpack.graph.lower import Lowering
from edgecore_xnnpack.graph.subgraph import TO_LAST
from edgecore_xnnpack.graph.symbolic_shapes import SizeDependent, Sizes, Symbols, merge, symbol_names
from edgecore_xnnpack.schema.graph import MAX_RANK

Lower = Callable[[Lowering, Node], Any]
"""Emits the operations of a node and returns its value; a list of values if the operator has several results."""


class Query(NodeQuery):
    """An fx node for the operator table to check. Symbolic sizes are numbers, at first their upper bounds."""

    def __init__(self, node: Node, constants: Constants, is_decomposed: bool, symbols: Symbols) -> None:
        super().__init__(node, constants, is_decomposed)
        self.symbols = symbols
        self.buffers: dict[Node, MutableBuffer] = {}
        """The mutable buffers of the program, by their placeholders."""
        self.sizes = symbols.samples[0]
        self.arrays: dict[Any, Any] = {}
        """Cache of contiguous copies of weights, because `XnnpackTable._size_reason` lowers a call several times."""
        self.size_reasons: dict[Node, str | None] = {}
        """Cache of the results of `XnnpackTable._size_reason`."""

    def with_sizes(self, sizes: Sizes) -> Query:
        """Return a query about the same fx node, whose symbolic sizes are the numbers in `sizes`."""
        other = self.about(self.node)
        other.sizes = sizes
        return other

    def argument(self, name: str) -> Any:
        """Return an argument of the fx node by its name in the operator's schema, or the default of this argument."""
        return self.sizes.resolve(super().argument(name))

    def is_constant(self, node: Any) -> bool:
        """Return True for a weight or a dequantized weight."""
        return is_weight(node, self.constants)

    def becomes_constant(self, node: Node) -> bool:
        """Return True for a weight, and for a node that is computed at compile time because it reads only weights."""
        if node.op == "placeholder":
            return self.is_constant(node)
        random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        return not random and all(self.becomes_constant(source) for source in node.all_input_nodes)

    def shape_of(self, node: Node) -> tuple[int, ...]:
        """Return the shape of a node's (first) result."""
        val = node.meta["val"]
        return self.sizes.of(val[0] if isinstance(val, (tuple, list)) else val)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the first input."""
        return self.shape_of(self.node.all_input_nodes[0])

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of the first result."""
        return self.shape_of(self.node)


def is_weight(node: Any, constants: Constants) -> bool:
    """Return True for a constant or a dequantized constant."""
    return constants.has(node) or (
        isinstance(node, Node) and is_dequantize(node) and all(map(constants.has, node.all_input_nodes))
    )


@dataclass(frozen=True, kw_only=True)
class Row(OperatorRow[Lower]):
    """A row of the operator table.

    Attributes:
        scalar_result: Results may have rank 0.
        needs: Function that returns why a call is not supported because of the operators before or after it, or None.
            It may query the table about these operators.
    """

    scalar_result: bool = False
    needs: Callable[[Query], str | None] | None = None


class XnnpackTable(OperatorTable[Lower]):
    """edgecore's `OperatorTable` with the requirements that XNNPACK has for every fx node.

    A dequantize node of a weight is supported only if all its readers are: XNNPACK has no node that dequantizes a
    weight, but its layers read integer weights. A node with symbolic sizes is supported only if its lowering does not
    depend on the values of these sizes (`symbolic_shapes.py`).
    """

    def make_query(self, program: ExportedProgram, *, is_decomposed: bool = True) -> Callable[[Node], Query]:
        """Return a function that creates the `Query` for an fx node; the table's checks take this query."""
        first = Query(program.graph.output_node(), Constants(program), is_decomposed, Symbols(program))
        first.buffers = {buffer.node: buffer for buffer in mutable_buffers(program)}
        return first.about

    def missing_reason(self, node: Node) -> str:
        """Return why an operator without a row in the table is not supported."""
        return f"no lowering for {operator_name(node.target)}"

    def unsupported_reason(self, query: NodeQuery) -> str | None:
        """Return why XNNPACK does not support an fx node; None if it does."""
        assert isinstance(query, Query)
        node = query.node
        if node.target not in self.rows:
            return self.missing_reason(node)
        if is_dequantize(node) and query.is_constant(node):
            has_other_reader = any(self.unsupported_reason(query.about(user)) is not None for user in node.users)
            return "weight of an operator that is not delegated" if has_other_reader else self.row_reason(query)
        for source in node.all_input_nodes:
            if is_dequantize(source) and query.is_constant(source):
                reason = self.row_reason(query.about(source))
                if reason is not None:
                    return reason
        row = self.rows[node.target]
        assert isinstance(row, Row)
        return self.own_reason(query) or (row.needs(query) if row.needs is not None else None)

    def own_reason(self, query: NodeQuery) -> str | None:
        """Return why XNNPACK does not support an fx node, regardless of the nodes around it; None if it does."""
        assert isinstance(query, Query)
        reason = super().unsupported_reason(query)
        if reason is not None:
            return reason
        if query.node not in query.size_reasons:
            query.size_reasons[query.node] = self._size_reason(query)
        return query.size_reasons[query.node]

    def tensor_reason(self, query: NodeQuery, row: OperatorRow[Lower]) -> str | None:
        """Return why XNNPACK does not support the dtype or shape of a tensor of an fx node; None if it supports all.

        Each tensor must have a dtype of the row, bounded sizes, rank 1 to 6 and at least one element. Constants, and
        results of rows with `scalar_result`, may also have rank 0. At least one input must be computed at run time.
        """
        assert isinstance(query, Query) and isinstance(row, Row)
        sources = _sources(query, row)
        if all(map(query.is_constant, sources)):
            return "computes from constants only"
        results = _used_results(query.node)
        for tensor in [source.meta["val"] for source in sources] + results:
            if not isinstance(tensor, torch.Tensor):
                return "reads a number that is computed outside the delegate"
            if tensor.dtype not in row.dtypes:
                return f"dtype {str(tensor.dtype).removeprefix('torch.')}"
            problem = query.symbols.problem(tensor)
            if problem:
                return problem
            if tensor.dim() > MAX_RANK:
                return f"rank {tensor.dim()}"
            if 0 in query.sizes.of(tensor):
                return "empty tensor"
        inputs = [source.meta["val"] for source in sources if not query.is_constant(source)]
        ranked = inputs if row.scalar_result else inputs + results
        return "rank 0" if any(tensor.dim() == 0 for tensor in ranked) else None

    def _size_reason(self, query: Query) -> str | None:
        """Return how the lowering of an fx node depends on the values of symbolic sizes; None if it does not.

        The node is lowered with several samples of the symbolic sizes, and the resulting subgraphs are compared.
        """
        symbols = symbol_names(_tensors(query.node))
        if not symbols:
            return None
        subgraphs = []
        for sizes in query.symbols.samples:
            reason = self.row_reason(query.with_sizes(sizes))
            if reason:
                return reason
            lower = self.rows[query.node.target].lower
            subgraphs.append(Lowering(query.constants, sizes, query.arrays).probe(query.node, lower))
        try:
            merge(subgraphs)
        except SizeDependent as error:
            return f"depends on the value of {symbols}: {error}"
        return None


def _supported_strides(query: Query) -> str | None:
    """Return why the strides of a tensor are not supported: it must be contiguous or channels last, unless constant."""
    row = TABLE.rows[query.node.target]
    sources = [source for source in _sources(query, row) if not query.is_constant(source)]
    for tensor in [source.meta["val"] for source in sources] + _used_results(query.node):
        if dim_order(tensor) not in (tuple(range(tensor.dim())), TO_LAST.get(tensor.dim())):
            return f"strides {tuple(tensor.stride())}"
    return None


TABLE = XnnpackTable(common=[_supported_strides])


def lowers(
    *targets: OpOverload,
    check: Callable[[Query], str | None] | None = None,
    constraints: str = "",
    do_not_decompose: bool = False,
    any_dtype: tuple[str, ...] = (),
    dtypes: tuple[torch.dtype, ...] = (torch.float32,),
    scalar_result: bool = False,
    needs: Callable[[Query], str | None] | None = None,
    has_half: bool = True,
) -> Callable[[Lower], Lower]:
    """Return a decorator that adds a table row for each operator in `targets`; the decorated function lowers them.

    The other arguments are the fields of `Row`. A row that supports float32 also supports float16, except rows of
    conversions between float32 and int8, and rows without `has_half`.
    """
    if has_half and torch.float32 in dtypes and torch.int8 not in dtypes:
        dtypes = (*dtypes, torch.float16)

    def enter(function: Lower) -> Lower:
        for target in targets:
            TABLE.add(
                Row(
                    target, dtypes, constraints, check, do_not_decompose, function, any_dtype,
                    scalar_result=scalar_result, needs=needs,
                )
            )  # fmt: skip
        return function

    return enter


def _sources(query: Query, row: OperatorRow[Lower]) -> list[Node]:
    """List the tensors that a node reads; omits symbolic sizes, and arguments that the row's `any_dtype` names."""
    exempt = query.nodes_of(row.any_dtype)
    return [
        source
        for source in query.node.all_input_nodes
        if source not in exempt and not isinstance(source.meta["val"], torch.SymInt)
    ]


def _used_results(node: Node) -> list[Any]:
    """List the `val`s of the results of an fx node; if it returns several, only those that have users."""
    val = node.meta["val"]
    if not isinstance(val, (tuple, list)):
        return [val]
    return [val[user.args[1]] for user in node.users]  # type: ignore[index]


def _tensors(node: Node) -> Iterator[torch.Tensor]:
    """Yield the `val`s of the inputs of an fx node, and of its results that have users."""
    yield from (source.meta["val"] for source in node.all_input_nodes)
    yield from _used_results(node)
