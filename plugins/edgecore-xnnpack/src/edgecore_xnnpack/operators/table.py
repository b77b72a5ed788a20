"""XNNPACK's operator table: the kit's, with constraints that know weights and symbolic sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.sdk import Constants, NodeQuery, OperatorRow, OperatorTable, dim_order, is_dequantize, operator_name
from edgecore_xnnpack.lowering import Lowering
from edgecore_xnnpack.schema.graph import MAX_RANK
from edgecore_xnnpack.subgraph import TO_LAST
from edgecore_xnnpack.symbolic_shapes import SizeDependent, Sizes, Symbols, merge, names

Lower = Callable[[Lowering, Node], Any]
"""Emits the operations of a node and returns its value, or a list of them for `getitem`."""


class Query(NodeQuery):
    """A call under examination. Symbolic sizes are numbers: those of `sizes`, the upper bounds to begin with."""

    def __init__(self, node: Node, constants: Constants, is_decomposed: bool, symbols: Symbols) -> None:
        super().__init__(node, constants, is_decomposed)
        self.symbols = symbols
        self.sizes = symbols.choices[0]
        self.arrays: dict[Any, Any] = {}
        """Contiguous copies of weights that trial lowerings made, for reuse."""

    def with_sizes(self, sizes: Sizes) -> Query:
        """Return the same query with other numbers for the symbolic sizes."""
        other = self.about(self.node)
        other.sizes = sizes
        return other

    def argument(self, name: str) -> Any:
        """Return an argument of the call by its schema name, defaults included."""
        return self.sizes.resolve(super().argument(name))

    def is_constant(self, node: Any) -> bool:
        """Return True for a weight, dequantized ones included."""
        return is_weight(node, self.constants)

    def becomes_constant(self, node: Node) -> bool:
        """Return True if a node reads nothing but weights: it is folded into one before partitions are made."""
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
    """Return True for a constant, or a dequantized one."""
    return constants.has(node) or (
        isinstance(node, Node) and is_dequantize(node) and all(map(constants.has, node.all_input_nodes))
    )


@dataclass(frozen=True, kw_only=True)
class Row(OperatorRow[Lower]):
    """A row; `scalar_result`: the result may have rank 0."""

    scalar_result: bool = False


class XnnpackTable(OperatorTable[Lower]):
    """The kit's table, with what XNNPACK demands of every call.

    A dequantized weight is supported exactly where all its readers are, and a call with symbolic sizes only if it is
    lowered to the same operations for all of them (`symbolic_shapes.py`).
    """

    def make_query(self, program: ExportedProgram, *, is_decomposed: bool = True) -> Callable[[Node], Query]:
        """Return the function that makes the query about a call."""
        first = Query(program.graph.output_node(), Constants(program), is_decomposed, Symbols(program))
        return first.about

    def missing_reason(self, node: Node) -> str:
        """Say that the operator of a call has no row."""
        return f"no lowering for {operator_name(node.target)}"

    def unsupported_reason(self, query: NodeQuery) -> str | None:
        """Say why XNNPACK does not run a call; None if it does."""
        assert isinstance(query, Query)
        node = query.node
        if node.target not in self.rows:
            return self.missing_reason(node)
        if is_dequantize(node) and query.is_constant(node):
            outside = any(self.unsupported_reason(query.about(user)) is not None for user in node.users)
            return "weight of an operator outside" if outside else self.row_reason(query)
        for source in node.all_input_nodes:
            if is_dequantize(source) and query.is_constant(source):
                reason = self.row_reason(query.about(source))
                if reason is not None:
                    return reason
        return super().unsupported_reason(query) or self._size_reason(query)

    def tensor_reason(self, query: NodeQuery, row: OperatorRow[Lower]) -> str | None:
        """Say which tensor XNNPACK has no type or shape for.

        Tensors have a dtype of the row, bounded sizes, rank 1 to 6 and elements, and one of them is computed at run
        time.
        """
        assert isinstance(query, Query) and isinstance(row, Row)
        sources = _sources(query, row)
        if all(map(query.is_constant, sources)):
            return "computes from constants only"
        results = _used_results(query.node)
        for tensor in [source.meta["val"] for source in sources] + results:
            if not isinstance(tensor, torch.Tensor):
                return "reads a number that is computed outside"
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
        """Say how a call is lowered differently for different sizes; None if it is not, or has no symbolic sizes."""
        symbols = names(_tensors(query.node))
        if not symbols:
            return None
        subgraphs = []
        for sizes in query.symbols.choices:
            reason = self.row_reason(query.with_sizes(sizes))
            if reason:
                return reason
            lower = self.rows[query.node.target].lower
            subgraphs.append(Lowering(query.constants, sizes, query.arrays).probe(query.node, lower))
        try:
            merge(subgraphs)
        except SizeDependent as error:
            return f"bakes {symbols}: {error}"
        return None


def _supported_strides(query: Query) -> str | None:
    """Constraint of every row: tensors that are computed are contiguous, or have their channels last."""
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
) -> Callable[[Lower], Lower]:
    """Enter a row for each of `targets`, which the decorated function lowers; the fields are those of `Row`.

    Rows of float32 support float16 too, but for conversions to and from integers.
    """
    if torch.float32 in dtypes and torch.int8 not in dtypes:
        dtypes = (*dtypes, torch.float16)

    def enter(function: Lower) -> Lower:
        for target in targets:
            TABLE.add(
                Row(
                    target, dtypes, constraints, check, do_not_decompose, function, any_dtype,
                    scalar_result=scalar_result,
                )
            )  # fmt: skip
        return function

    return enter


def _sources(query: Query, row: OperatorRow[Lower]) -> list[Node]:
    """List the tensors that a call reads, without the arguments of `any_dtype` and sizes."""
    exempt = query.nodes_of(row.any_dtype)
    return [
        source
        for source in query.node.all_input_nodes
        if source not in exempt and not isinstance(source.meta["val"], torch.SymInt)
    ]


def _used_results(node: Node) -> list[Any]:
    """List the `val`s of a call's results; of several results those that are used."""
    val = node.meta["val"]
    if not isinstance(val, (tuple, list)):
        return [val]
    return [val[user.args[1]] for user in node.users]  # type: ignore[index]


def _tensors(node: Node) -> Iterator[torch.Tensor]:
    """Yield the `val`s that a call reads, and those of its results that are used."""
    yield from (source.meta["val"] for source in node.all_input_nodes)
    yield from _used_results(node)
