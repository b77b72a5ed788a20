"""ExecuTorch's functions that count and print the nodes in delegates, and its builder of debug handle maps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from edgecore.devtools.printable import join_lines, printable

_NUMBER = re.compile(r"_\d+$")


@dataclass(slots=True)
class DelegationBreakdown:
    """The numbers of nodes of one operator inside and outside of delegates."""

    op_type: str = ""
    delegated: int = 0
    non_delegated: int = 0


@dataclass(slots=True)
class DelegationInfo:
    """Numbers of nodes inside and outside of delegates."""

    num_delegated_subgraphs: int = 0
    num_delegated_nodes: int = 0
    num_non_delegated_nodes: int = 0
    delegation_by_operator: dict[str, DelegationBreakdown] = field(default_factory=dict)

    def get_summary(self) -> str:
        """Return the totals as text."""
        return (
            f"Total delegated subgraphs: {self.num_delegated_subgraphs}\n"
            f"Number of delegated nodes: {self.num_delegated_nodes}\n"
            f"Number of non-delegated nodes: {self.num_non_delegated_nodes}\n"
        )

    def rows(self) -> list[tuple[str, int, int]]:
        """Return (operator, number of nodes in delegates, number of other nodes) for each operator, then the totals."""
        rows = sorted((row.op_type, row.delegated, row.non_delegated) for row in self.delegation_by_operator.values())
        return [*rows, ("Total", self.num_delegated_nodes, self.num_non_delegated_nodes)]

    def get_operator_delegation_dataframe(self) -> Any:
        """Return the rows as a pandas data frame."""
        import pandas  # type: ignore[import-untyped]

        names = ["op_type", "occurrences_in_delegated_graphs", "occurrences_in_non_delegated_graphs"]
        return pandas.DataFrame(self.rows(), columns=names)

    def as_dict(self) -> dict[str, Any]:
        """Return all numbers for JSON."""
        return asdict(self)


def get_delegation_info(graph_module: Any) -> DelegationInfo:
    """Count the nodes of a lowered graph inside and outside of delegates.

    Args:
        graph_module: The graph: `manager.exported_program().graph_module`.

    Returns:
        The counts.

    Example:
        >>> manager = edgecore.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
        >>> print(get_delegation_info(manager.exported_program().graph_module).get_summary())
    """
    info = DelegationInfo()

    def count(name: str, delegated: bool) -> None:
        operator = _NUMBER.sub("", name)
        row = info.delegation_by_operator.setdefault(operator, DelegationBreakdown(operator))
        row.delegated += delegated
        row.non_delegated += not delegated

    for node in graph_module.graph.nodes:
        if node.op == "call_function" and not _calls_delegate(node):
            count(node.name, delegated=False)
        lowered = _lowered(graph_module, node)
        if lowered is not None:
            info.num_delegated_subgraphs += 1
            for inner in lowered.original_module.graph.nodes:
                if inner.op == "call_function":
                    count(inner.name, delegated=True)
    info.num_delegated_nodes = sum(row.delegated for row in info.delegation_by_operator.values())
    info.num_non_delegated_nodes = sum(row.non_delegated for row in info.delegation_by_operator.values())
    return info


def format_delegated_graph(graph_module: Any) -> str:
    """Return a lowered graph as text, with the graphs that its delegates compute."""
    lines = ["graph():"]
    for node in graph_module.graph.nodes:
        lines.append(f"  {node.format_node()}")
        lowered = _lowered(graph_module, node)
        if lowered is not None:
            lines += [f"    backend_id: {lowered.backend_id}", "    lowered graph():"]
            lines += [f"      {inner.format_node()}" for inner in lowered.original_module.graph.nodes]
    return join_lines(lines) + "\n"


def print_delegated_graph(graph_module: Any) -> None:
    """Print what `format_delegated_graph` returns."""
    print(format_delegated_graph(graph_module))


def inspect_node(graph: Any, node: Any) -> str:
    """Return a graph as text with an arrow at a node, and the lines of code that the node comes from."""
    lines = ["Here is the node in the graph module:", "graph():"]
    for each in graph.nodes:
        text = each.format_node()
        if text:
            lines.append(("--> " if each is node else "    ") + text)
    lines.append(f"This node {node} has metadata of:")
    if node.meta.get("stack_trace"):
        lines += ["The node stacktrace:", "Traceback (most recent call last):", *node.meta["stack_trace"].splitlines()]
    return join_lines(lines) + "\n"


def print_delegation_info(graph_module: Any) -> None:
    """Print the summary and the rows of `get_delegation_info`."""
    info = get_delegation_info(graph_module)
    print(info.get_summary())
    rows = [("operator", "in delegates", "outside"), *((name, str(a), str(b)) for name, a, b in info.rows())]
    width = max(len(name) for name, _, _ in rows)
    for name, inside, outside in rows:
        print(printable(f"{name:<{width}}  {inside:>12}  {outside:>7}"))


def _calls_delegate(node: Any) -> bool:
    return getattr(node.target, "__name__", "").endswith("call_delegate")


def _lowered(graph_module: Any, node: Any) -> Any:
    """Return the module of a delegate that a `get_attr` node reads; None for other nodes."""
    if node.op != "get_attr":
        return None
    module = getattr(graph_module, str(node.target), None)
    return module if hasattr(module, "original_module") and hasattr(module, "backend_id") else None


class DelegateMappingBuilder:
    """Collects which nodes each operation of a delegate computes, for `PreprocessResult.debug_handle_map`.

    Args:
        generated_identifiers: True to number the operations; False if the caller names each operation.
    """

    def __init__(self, generated_identifiers: bool = False) -> None:
        self._generated = generated_identifiers
        self._handles: dict[int | str, set[int]] = {}

    def get_delegate_mapping(self) -> dict[int | str, tuple[int, ...]]:
        """Return the debug handles of each operation, in ascending order."""
        return {identifier: tuple(sorted(handles)) for identifier, handles in self._handles.items()}

    def insert_delegate_mapping_entry(
        self,
        nodes: Any = None,
        handles: int | Sequence[int | None] | None = None,
        identifier: int | str | None = None,
    ) -> int | str:
        """Add an operation.

        Args:
            nodes: The node or nodes that the operation computes; pass either these or `handles`.
            handles: The debug handle or handles of these nodes. None in a list is left out.
            identifier: The delegate's name for the operation; None if identifiers are generated.

        Returns:
            The identifier.

        Raises:
            ValueError: Both or neither of nodes and handles are given, no node has a debug handle, or the identifier
                is missing, used already, or given although identifiers are generated.
        """
        if (nodes is None) == (handles is None):
            raise ValueError("exactly one of nodes and handles must be given")
        if self._generated == (identifier is not None):
            raise ValueError(
                "identifiers are generated; leave identifier out" if self._generated else "identifier is missing"
            )
        if identifier is None:
            identifier = len(self._handles)
        if identifier in self._handles:
            raise ValueError(f"identifier {identifier!r} was added already")
        candidates: Iterable[Any]
        if nodes is not None:
            candidates = [
                node.meta.get("debug_handle") for node in (nodes if isinstance(nodes, (list, tuple)) else [nodes])
            ]
        else:
            candidates = [handles] if isinstance(handles, int) else handles or ()
        present = {handle for handle in candidates if handle is not None}
        if not present:
            raise ValueError("no node has a debug handle")
        self._handles[identifier] = present
        return identifier
