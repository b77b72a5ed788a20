"""The one table of operators: what a row refuses, and how it lowers the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.constants import Constants
from edgecore.ir.graph import operator_name
from edgecore.ir.verifier import dim_order
from edgecore.passes.quantized import is_dequantize
from edgecore.passes.rewrites import argument
from edgecore_xnnpack.lowering import Lowering
from edgecore_xnnpack.net import TO_LAST
from edgecore_xnnpack.schema.graph import MAX_RANK
from edgecore_xnnpack.sizes import BakedSize, Sizes, Symbols, merge, names

Lower = Callable[[Lowering, Node], Any]
"""Emits the operations of a node and returns its value, or a list of them for `getitem`."""


class Query:
    """A node under examination, with what a constraint may ask about it."""

    def __init__(self, node: Node, constants: Constants, sizes: Sizes) -> None:
        self.node = node
        self.sizes = sizes
        self._constants = constants

    def argument(self, name: str) -> Any:
        """An argument by its schema name, defaults included."""
        return self.sizes.resolve(argument(self.node, name))

    def is_constant(self, node: Any) -> bool:
        """Whether a node is a weight, quantized ones included."""
        return is_weight(node, self._constants)

    def constant(self, node: Node) -> torch.Tensor:
        """The tensor of a constant placeholder."""
        return self._constants.get(node)

    def becomes_constant(self, node: Node) -> bool:
        """Whether a node reads nothing but weights: folding makes it one before partitions are made."""
        if node.op == "placeholder":
            return self.is_constant(node)
        random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        return not random and all(self.becomes_constant(source) for source in node.all_input_nodes)

    def about(self, node: Node) -> Query:
        """The same questions about another node."""
        return Query(node, self._constants, self.sizes)

    def shape_of(self, node: Node) -> tuple[int, ...]:
        """Shape of a node's (first) result; symbolic sizes as numbers."""
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
    """Whether a node is a constant, or a dequantized one."""
    return constants.has(node) or (
        isinstance(node, Node) and is_dequantize(node) and all(map(constants.has, node.all_input_nodes))
    )


Check = Callable[[Query], "str | None"]
"""Why a node is refused, or None."""


@dataclass(frozen=True)
class Row:
    """One operator.

    `constraints` says in words what `check` demands; `whole`: keep it from being decomposed; `unlike`: arguments that
    need not have these `dtypes`, for `check` to examine; `scalar`: the result may have no dimensions.
    """

    lower: Lower
    check: Check
    constraints: str
    whole: bool
    unlike: tuple[str, ...]
    dtypes: tuple[torch.dtype, ...]
    scalar: bool

    @property
    def names_of_dtypes(self) -> tuple[str, ...]:
        """For the documentation."""
        half = ("float16",) if _has_half(self.dtypes) else ()
        return tuple(str(dtype).removeprefix("torch.") for dtype in self.dtypes) + half


TABLE: dict[OpOverload, Row] = {}


def lowers(
    *targets: OpOverload,
    check: Check = lambda query: None,
    constraints: str = "",
    whole: bool = False,
    unlike: tuple[str, ...] = (),
    dtypes: tuple[torch.dtype, ...] = (torch.float32,),
    scalar: bool = False,
) -> Callable[[Lower], Lower]:
    """Enter the decorated function in the table for `targets`."""

    def enter(function: Lower) -> Lower:
        for target in targets:
            assert target not in TABLE, target
            TABLE[target] = Row(function, check, constraints, whole, unlike, dtypes, scalar)
        return function

    return enter


def row_refusal(query: Query) -> str | None:
    """Why the node's row refuses it; it says nothing about the tensors in general."""
    target = query.node.target
    row = TABLE.get(target) if isinstance(target, OpOverload) else None
    return f"no lowering for {operator_name(target)}" if row is None else row.check(query)


def make_check(program: ExportedProgram, *, views: bool = False) -> Callable[[Node], str | None]:
    """The question that the partitioner asks of each call node of `program`.

    `views`: the graph still has views, whose strides are gone once they have become copies.
    """
    constants, symbols, arrays = Constants(program), Symbols(program), dict[Any, Any]()

    def check(node: Node) -> str | None:
        row = TABLE.get(node.target) if isinstance(node.target, OpOverload) else None
        if row is None:
            return f"no lowering for {operator_name(node.target)}"
        query = Query(node, constants, symbols.choices[0])
        if is_dequantize(node) and query.is_constant(node):
            outside = any(check(user) is not None for user in node.users)
            return "weight of an operator outside" if outside else row.check(query)
        for source in node.all_input_nodes:
            if is_dequantize(source) and query.is_constant(source):
                reason = row_refusal(query.about(source))
                if reason is not None:
                    return reason
        unlike = {source for name in row.unlike for source in _nodes(argument(node, name))}
        return _check_tensors(query, unlike, row, symbols, views) or row.check(query) or _check_sizes(node, row)

    def _check_sizes(node: Node, row: Row) -> str | None:
        """Whether the node is lowered alike for all sizes."""
        sizes = names(_tensors(node))
        if not sizes:
            return None
        nets = []
        for choice in symbols.choices:
            reason = row.check(Query(node, constants, choice))
            if reason:
                return reason
            nets.append(Lowering(constants, choice, arrays).probe(node, row.lower))
        try:
            merge(nets)
        except BakedSize as error:
            return f"bakes {sizes}: {error}"
        return None

    return check


def _has_half(dtypes: tuple[torch.dtype, ...]) -> bool:
    """Rows of float32 take float16, but for conversions to and from integers."""
    return torch.float32 in dtypes and torch.int8 not in dtypes


def _nodes(value: Any) -> list[Node]:
    """The nodes in an argument."""
    return [item for item in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(item, Node)]


def _is_size(node: Node) -> bool:
    return isinstance(node.meta["val"], torch.SymInt)


def _tensors(node: Node) -> Iterator[torch.Tensor]:
    """What a node reads and gives; of several results those that are used."""
    for source in node.all_input_nodes:
        yield source.meta["val"]
    val = node.meta["val"]
    if isinstance(val, (tuple, list)):
        yield from (val[user.args[1]] for user in node.users)  # type: ignore[index]
    else:
        yield val


def _check_tensors(query: Query, unlike: set[Any], row: Row, symbols: Symbols, views: bool) -> str | None:
    """What holds for every operator: dtypes, bounded sizes, rank 1 to 6, not empty, something to compute at run time."""
    node = query.node
    sources = [source for source in node.all_input_nodes if source not in unlike and not _is_size(source)]
    if all(map(query.is_constant, sources)):
        return "computes from constants only"
    val = node.meta["val"]
    results = val if isinstance(val, (tuple, list)) else (val,)
    used: list[Any] = [user.args[1] for user in node.users] if isinstance(val, (tuple, list)) else [0]
    tensors = [source.meta["val"] for source in sources] + [results[index] for index in used]
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor):
            return "reads a number that is computed outside"
        if tensor.dtype not in row.dtypes and not (tensor.dtype == torch.float16 and _has_half(row.dtypes)):
            return f"dtype {str(tensor.dtype).removeprefix('torch.')}"
        problem = symbols.problem(tensor)
        if problem:
            return problem
        if tensor.dim() > MAX_RANK:
            return f"rank {tensor.dim()}"
        if 0 in query.sizes.of(tensor):
            return "empty tensor"
    runtime = [source.meta["val"] for source in sources if not query.is_constant(source)]
    given = [results[index] for index in used]
    if any(tensor.dim() == 0 for tensor in (runtime if row.scalar else runtime + given)):
        return "rank 0"
    for tensor in runtime + given:
        if not views and dim_order(tensor) not in (tuple(range(tensor.dim())), TO_LAST.get(tensor.dim())):
            return f"strides {tuple(tensor.stride())}"
    return None
