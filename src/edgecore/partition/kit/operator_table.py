"""Tables of the operators that a backend supports.

A table decides which nodes are delegated, and gives the reasons why others are not. It also documents the operators,
and holds the data with which the backend's compiler translates each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Generic, TypeVar

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.dialect.dim_orders import dim_order
from edgecore.ir.dialect.dtypes import dtype_name
from edgecore.ir.op_args import arguments_by_name
from edgecore.ir.program.constants import Constants
from edgecore.ir.program.mutable_state import MutableBuffer
from edgecore.ir.torch_compat import OpOverload, schema_of
from edgecore.partition.kit.capability import CapabilityPartitioner, Preserve
from edgecore.partition.kit.crossings import InsideOnly
from edgecore.partition.kit.node_query import NodeQuery
from edgecore.partition.protocol import LayoutReason, UnsupportedReason
from edgecore.plugin import CompileSpec, OperatorSupport

Lower = TypeVar("Lower")

Constraint = Callable[[Any], "str | None"]
"""A function that takes the `NodeQuery` of a call; it returns the reason why the backend does not support the call.

The reason is a fragment such as `alpha is 2`; None if the call fulfills the constraint.
"""

_MAX_NAMES = 20
"""Largest number of operators that an error message lists; for a longer table it lists only similar names."""


@dataclass(frozen=True)
class OperatorRow(Generic[Lower]):
    """One operator that a backend supports.

    Attributes:
        target: The operator of the edge dialect.
        dtypes: The dtypes that each tensor of a call, input or result, may have.
        constraints: The conditions that `unsupported_reason` checks, in words, for the documentation.
        unsupported_reason: Returns the reason why the backend does not support a call, or None.
        do_not_decompose: True if supported calls must not be decomposed into other operators.
        lower: Data with which the backend's compiler translates a call, such as a function or an operator's number.
        any_dtype: Names of arguments to which `dtypes` does not apply, such as constant indices.
    """

    target: OpOverload
    dtypes: tuple[torch.dtype, ...]
    constraints: str = ""
    unsupported_reason: Constraint | None = None
    do_not_decompose: bool = False
    lower: Lower = None  # type: ignore[assignment]  # None: the backend's compiler needs no data
    any_dtype: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, str]:
        """The two names of the operator: `aten.add.Tensor` and `add`."""
        return str(self.target), schema_of(self.target).name.rpartition("::")[2]


class OperatorTable(Generic[Lower]):
    """The supported operators of a backend, and constraints that apply to all of them.

    If the constraints of a backend need facts that `NodeQuery` lacks, the backend derives a class from `NodeQuery`. It
    also derives a class from `OperatorTable`, in which `make_query` makes the derived query. The other methods without
    an underscore may be overridden, too.

    Args:
        rows: The rows, one for each operator; `add` adds more.
        common: Constraints of every row, such as `contiguous_only`. They are not checked before decomposition, when the
            graph still has views and layouts are not final.

    Raises:
        ValueError: Two rows have the same operator.
    """

    def __init__(self, rows: Iterable[OperatorRow[Lower]] = (), common: Sequence[Constraint] = ()) -> None:
        self.rows: dict[Any, OperatorRow[Lower]] = {}
        self.common = tuple(common)
        for row in rows:
            self.add(row)

    def add(self, row: OperatorRow[Lower]) -> None:
        """Add a row.

        Raises:
            ValueError: The table already has a row for this operator.
        """
        if row.target in self.rows:
            raise ValueError(f"two rows of the operator table have the same operator, {row.target}")
        self.rows[row.target] = row

    def make_query(self, program: ExportedProgram, *, is_decomposed: bool = True) -> Callable[[Node], NodeQuery]:
        """Return the function that makes the `NodeQuery` of a call in `program`.

        Facts about the whole program are computed only once, in this method.
        """
        constants = Constants(program)
        return lambda node: NodeQuery(node, constants, is_decomposed)

    def unsupported_reasons(self, program: ExportedProgram, *, is_decomposed: bool = True) -> UnsupportedReason:
        """Return a function that gives the reason why the table does not support a call in `program`, or None."""
        make_query = self.make_query(program, is_decomposed=is_decomposed)
        return lambda node: self.unsupported_reason(make_query(node))

    def unsupported_reason(self, query: NodeQuery) -> str | None:
        """Return the reason why the table does not support a call, or None.

        Checks, in this order, the operator, the dtypes of the call's tensors, the common constraints, and the
        constraints of the operator's row.
        """
        row = self.rows.get(query.node.target)
        if row is None:
            return self.missing_reason(query.node)
        reason = self.tensor_reason(query, row)
        constraints = self.common if query.is_decomposed else ()
        return reason or next(filter(None, (check(query) for check in constraints)), None) or self.row_reason(query)

    def row_reason(self, query: NodeQuery) -> str | None:
        """Return the reason why a call does not fulfill the constraints of its row, or None.

        The dtypes of the tensors and the common constraints are not checked.
        """
        row = self.rows.get(query.node.target)
        if row is None:
            return self.missing_reason(query.node)
        return row.unsupported_reason(query) if row.unsupported_reason else None

    def missing_reason(self, node: Node) -> str:
        """Return the reason for a call whose operator has no row."""
        return "not among the backend's operators"

    def tensor_reason(self, query: NodeQuery, row: OperatorRow[Lower]) -> str | None:
        """Return the reason why a row does not support a value of a call: it is not a tensor, or has another dtype."""
        for name, val in query.vals(except_arguments=row.any_dtype):
            if not isinstance(val, torch.Tensor):
                return f"{name} is not a tensor"
            if val.dtype not in row.dtypes:
                return f"{name} is {dtype_name(val.dtype)}, not {' or '.join(map(dtype_name, row.dtypes))}"
        return None

    @property
    def ops_to_not_decompose(self) -> tuple[OpOverload, ...]:
        """The operators of rows with `do_not_decompose`."""
        return tuple(row.target for row in self.rows.values() if row.do_not_decompose)

    def preserve(self, program: ExportedProgram) -> Preserve:
        """Return the function that is True for calls of `ops_to_not_decompose` that the table supports."""
        reasons = self.unsupported_reasons(program, is_decomposed=False)
        return lambda node: reasons(node) is None

    def support(self) -> list[OperatorSupport]:
        """List the rows sorted by operator, without functions, for `BackendCompiler.operator_support`."""
        rows = [
            OperatorSupport(str(row.target), tuple(map(dtype_name, row.dtypes)), row.constraints)
            for row in self.rows.values()
        ]
        return sorted(rows, key=lambda row: row.operator)

    def check_names(self, names: Sequence[str], *, namespace: str = "") -> Sequence[str]:
        """Validate an option that names operators (`add` or `aten.add.Tensor`), and return `names`.

        Args:
            names: The names.
            namespace: Accept only operators of this namespace, such as `aten`; any namespace if empty.

        Raises:
            ValueError: The table lacks one of the named operators.
        """
        rows = [row for row in self.rows.values() if namespace in ("", row.target.namespace)]
        known = sorted({name for row in rows for name in row.names})
        for name in names:
            if name not in known:
                shown = known if len(known) <= _MAX_NAMES else get_close_matches(name, known) or known[:_MAX_NAMES]
                more = "" if len(shown) == len(known) else ", ..."
                raise ValueError(f"no operator {name!r}: there are {', '.join(shown)}{more}")
        return names

    def partitioner(
        self,
        backend_id: str,
        *,
        compile_specs: Sequence[CompileSpec] = (),
        operators: Sequence[str] = (),
        min_partition_size: int = 1,
        can_hold: Callable[[MutableBuffer], bool] | None = None,
        updates_in_place: Callable[[Node], bool] | None = None,
        inside_only: InsideOnly | None = None,
    ) -> CapabilityPartitioner:
        """Make a partitioner that delegates the calls that the table supports.

        Args:
            backend_id: The backend's id, as in its `BackendInfo`.
            compile_specs: The compile specs of every partition.
            operators: Delegate only these operators (`aten.add.Tensor` or `add`); all if empty.
            min_partition_size: Partitions with fewer operators are not delegated.
            can_hold: Returns True for a mutable buffer whose state the backend can keep; None to keep no buffers.
            updates_in_place: Returns True for a node that is supported only as the update of a mutable buffer whose
                state the backend keeps; None if there are no such nodes.
            inside_only: Identifies values that must not cross the border of a partition; None if there are none.

        Raises:
            ValueError: The table lacks an operator named in `operators`.
        """
        allowed = set(self.check_names(operators))

        def make_reasons(program: ExportedProgram) -> UnsupportedReason:
            reasons = self.unsupported_reasons(program)

            def reason(node: Node) -> str | None:
                unsupported = reasons(node)
                if unsupported or not allowed or allowed & set(self.rows[node.target].names):
                    return unsupported
                return "left out by an option"

            return reason

        return CapabilityPartitioner(
            backend_id,
            make_reasons,
            compile_specs=compile_specs,
            ops_to_not_decompose=self.ops_to_not_decompose,
            preserve=self.preserve,
            min_partition_size=min_partition_size,
            can_hold=can_hold,
            updates_in_place=updates_in_place,
            inside_only=inside_only,
        )


def contiguous_only(query: NodeQuery) -> str | None:
    """Constraint for backends that need contiguous tensors. After a refusal, edgecore makes the values contiguous."""
    for name, val in query.vals():
        if isinstance(val, torch.Tensor) and dim_order(val) != tuple(range(val.dim())):
            return LayoutReason(f"{name} is not contiguous (channels last, for example)")
    return None


def at_most_dims(count: int) -> Constraint:
    """Make the constraint for backends that support tensors with at most `count` dims."""

    def check(query: NodeQuery) -> str | None:
        for name, val in query.vals():
            if isinstance(val, torch.Tensor) and val.dim() > count:
                return f"{name} has {val.dim()} dims, more than {count}"
        return None

    return check


def no_empty_tensors(query: NodeQuery) -> str | None:
    """Constraint for backends without support for empty tensors."""
    is_empty = any(0 in val.shape for val in _tensors(query))
    return "a tensor without elements" if is_empty else None


def static_sizes(reason: str) -> Constraint:
    """Make the constraint for backends that support only fixed sizes; `reason` is returned for symbolic sizes."""

    def check(query: NodeQuery) -> str | None:
        is_symbolic = any(not isinstance(size, int) for val in _tensors(query) for size in val.shape)
        return reason if is_symbolic else None

    return check


def same_ranks(query: NodeQuery) -> str | None:
    """Constraint for an operator that joins tensors, such as `cat`: refuses tensors of different ranks."""
    ranks = {source.meta["val"].dim() for source in query.node.all_input_nodes}
    return "tensors of different ranks" if len(ranks) > 1 else None


def integers_of_32_bits(query: NodeQuery) -> str | None:
    """Constraint for backends that store int64 in 32 bits: refuses numbers and constants that do not fit."""
    limits = torch.iinfo(torch.int32)
    for name, value in arguments_by_name(query.node).items():
        for item in value if isinstance(value, (list, tuple)) else [value]:
            ends = _ends(query, name, item)
            if ends is not None and not limits.min <= ends[0] <= ends[1] <= limits.max:
                return f"{name} has integers of more than 32 bits"
    return None


def _ends(query: NodeQuery, name: str, value: Any) -> tuple[int, int] | None:
    """Return the smallest and largest integer in an argument; None if unknown, or for sizes and positions."""
    if type(value) is int:
        return (value, value) if name in _NUMBERS else None
    if not isinstance(value, Node) or not query.constants.has(value) or value.meta["val"].dtype != torch.int64:
        return None
    constant = query.constants.get(value)
    return (int(constant.min()), int(constant.max())) if constant.numel() else None


_NUMBERS = ("self", "other", "min", "max", "value", "fill_value", "exponent")
"""Arguments whose numbers the operator computes with; other numbers are sizes and positions."""


def _tensors(query: NodeQuery) -> list[torch.Tensor]:
    """List the input tensors of a call, and its result if the call has only one result."""
    vals = [source.meta.get("val") for source in query.node.all_input_nodes] + [query.node.meta["val"]]
    return [val for val in vals if isinstance(val, torch.Tensor)]
