"""Facts about one operator call, for the constraints of an operator table."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, TypeVar

import torch
from torch.fx import Node

from edgecore.ir.op_args import argument
from edgecore.ir.program.constants import Constants

Query = TypeVar("Query", bound="NodeQuery")


class NodeQuery:
    """Facts about one operator call, which constraints check: for example, `is_constant` of an argument.

    Attributes:
        node: The call.
        constants: The constants of the program.
        is_decomposed: False before decomposition, when the graph may still have composite operators and views. The
            strides of a view are then not final: decomposition replaces the view by a copy with dense strides.
    """

    def __init__(self, node: Node, constants: Constants, is_decomposed: bool = True) -> None:
        self.node = node
        self.is_decomposed = is_decomposed
        self.constants = constants

    def about(self: Query, node: Node) -> Query:
        """Return a `NodeQuery` about another call of the same program."""
        other = copy(self)
        other.node = node
        return other

    def argument(self, name: str) -> Any:
        """Return the value of the argument `name` of the call, or its default."""
        return argument(self.node, name)

    def is_constant(self, node: Any) -> bool:
        """Return True for a node whose tensor is known at compile time, such as a weight."""
        return self.constants.has(node)

    def constant(self, node: Node) -> torch.Tensor:
        """Return the tensor of a constant node, detached."""
        return self.constants.get(node)

    def vals(self, except_arguments: Sequence[str] = ()) -> list[tuple[str, Any]]:
        """List the inputs and results of the call as (name for messages, `val`), such as `input x` or `its result`.

        Args:
            except_arguments: Names of arguments to omit.
        """
        exempt = self.nodes_of(except_arguments)
        sources = [source for source in self.node.all_input_nodes if source not in exempt]
        results = self.node.meta["val"]
        return [(f"input {source.name}", source.meta.get("val")) for source in sources] + [
            ("its result", val) for val in (results if isinstance(results, (tuple, list)) else [results])
        ]

    def nodes_of(self, names: Sequence[str]) -> set[Node]:
        """Return the nodes among the arguments with these names, including nodes in list arguments."""
        values = [self.argument(name) for name in names]
        items = [item for value in values for item in (value if isinstance(value, (list, tuple)) else [value])]
        return {item for item in items if isinstance(item, Node)}
