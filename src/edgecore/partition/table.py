"""Operator support as data: one table from which come the partitioner, its reasons, and the documentation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.verifier import dim_order
from edgecore.partition.capability import CapabilityPartitioner, Check
from edgecore.plugin import CompileSpec, OperatorSupport


@dataclass(frozen=True)
class OperatorRow:
    """What a backend takes of one operator.

    `dtypes` are those of every tensor that a call reads and gives. `constraints` is for the documentation; `refuses` says
    why a call breaks them, as a fragment such as `alpha is 2`, or None. `whole`: calls that the row takes are not decomposed
    into other operators.
    """

    target: OpOverload
    dtypes: tuple[torch.dtype, ...]
    constraints: str = ""
    refuses: Check | None = None
    whole: bool = False

    @property
    def names(self) -> tuple[str, str]:
        """`aten.add.Tensor` and `add`."""
        return str(self.target), self.target._schema.name.rpartition("::")[2]


class OperatorTable:
    """The rows of a backend, and what holds for all of them: `common` are further reasons to refuse a call.

    Raises:
        ValueError: Two rows have one operator.
    """

    def __init__(self, rows: Iterable[OperatorRow], common: Sequence[Check] = ()) -> None:
        given = tuple(rows)
        self.rows: dict[Any, OperatorRow] = {row.target: row for row in given}
        self.common = tuple(common)
        if len(self.rows) < len(given):
            raise ValueError("two rows of the operator table have the same operator")

    def refusal(self, node: Node) -> str | None:
        """Why the table does not take a call node; None if it does."""
        row = self.rows.get(node.target)
        if row is None:
            return "not among the backend's operators"
        checks = (*self.common, row.refuses) if row.refuses else self.common
        reason = _wrong_dtype(node, row)
        return reason or next((reason for check in checks if (reason := check(node))), None)

    def _keeps(self, node: Node) -> bool:
        """Whether a call is wanted whole. What `common` says, of layouts for example, is asked after decomposition only."""
        row = self.rows[node.target]
        return _wrong_dtype(node, row) is None and (row.refuses is None or row.refuses(node) is None)

    def support(self) -> list[OperatorSupport]:
        """The rows for `BackendCompiler.operator_support`, by name."""
        rows = [
            OperatorSupport(str(row.target), tuple(map(_name, row.dtypes)), row.constraints)
            for row in self.rows.values()
        ]
        return sorted(rows, key=lambda row: row.operator)

    def check_names(self, names: Sequence[str]) -> Sequence[str]:
        """`names`, each of an operator in the table: for the validator of an option.

        Raises:
            ValueError: There is none of one of the names.
        """
        known = sorted({name for row in self.rows.values() for name in row.names})
        for name in names:
            if name not in known:
                raise ValueError(f"no operator {name!r}: there are {', '.join(known)}")
        return names

    def partitioner(
        self,
        backend_id: str,
        *,
        compile_specs: Sequence[CompileSpec] = (),
        operators: Sequence[str] = (),
        least: int = 1,
    ) -> CapabilityPartitioner:
        """A partitioner that takes what the table takes.

        `operators` leaves of it those of these names (`aten.add.Tensor` or `add`), all if empty; partitions of fewer than
        `least` operators stay outside.

        Raises:
            ValueError: The table has no operator of a name in `operators`.
        """
        chosen = set(self.check_names(operators))

        def check(node: Node) -> str | None:
            reason = self.refusal(node)
            if reason or not chosen or chosen & set(self.rows[node.target].names):
                return reason
            return "left out by an option"

        def make_check(_: ExportedProgram) -> Callable[[Node], str | None]:
            return check

        return CapabilityPartitioner(
            backend_id,
            make_check,
            compile_specs=compile_specs,
            whole=[row.target for row in self.rows.values() if row.whole],
            keep=self._keeps,
            least=least,
        )


def contiguous_only(node: Node) -> str | None:
    """A check for backends that know no layout but the default one."""
    for name, val in _tensors(node):
        if dim_order(val) != tuple(range(val.dim())):
            return f"{name} is not contiguous (channels last, for example)"
    return None


def at_most_dims(count: int) -> Check:
    """A check for backends whose tensors have at most `count` dims."""

    def check(node: Node) -> str | None:
        for name, val in _tensors(node):
            if val.dim() > count:
                return f"{name} has {val.dim()} dims, more than {count}"
        return None

    return check


def _wrong_dtype(node: Node, row: OperatorRow) -> str | None:
    for name, val in _tensors(node):
        if not isinstance(val, torch.Tensor):
            return f"{name} is no tensor"
        if val.dtype not in row.dtypes:
            return f"{name} is {_name(val.dtype)}, not {' or '.join(map(_name, row.dtypes))}"
    return None


def _tensors(node: Node) -> list[tuple[str, Any]]:
    """What a call reads and gives, each with its name in a reason."""
    given = [(f"input {source.name}", source.meta.get("val")) for source in node.all_input_nodes]
    results = node.meta["val"]
    return given + [("its result", val) for val in (results if isinstance(results, (tuple, list)) else [results])]


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
