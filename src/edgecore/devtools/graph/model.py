"""The graph of a file as data, JSON and text: its operators with their modules and backends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any

from edgecore.devtools.printable import join_lines

SCHEMA = "edgecore.graph.v1"


@dataclass(slots=True)
class Node:
    """A node of a graph.

    Attributes:
        id: Its id in edges and groups. "forward/3" is an instruction; "forward/3/7" is the operator with debug handle 7
            in the delegate that this instruction calls; "forward/3/operation 5" is an operation of the delegate's blob;
            "forward/input 0" and "forward/output 0" are arguments of the method.
        kind: "input", "output", "kernel" (call of a kernel), "delegate" (call of a delegate), "operator" (inside a
            delegate), "operation" (inside a delegate with an opened blob), "move" or "jump".
        name: Short name, such as "linear", "convolution + relu" or "XnnpackBackend".
        operator: Name of the operator: "aten.linear.default". A kernel without a known operator has its own name here:
            "aten::copy_".
        module: Path of the module: "features.0"; empty for the model itself, and if it is unknown.
        source: Line of the source: "model.py:12".
        handles: Debug handles of the operators that the node computes.
        backend: Id of the backend, or "kernels"; empty for inputs, outputs, moves and jumps.
        parent: Id of the delegate node that contains this node.
        bytes: Size of the weights that a kernel reads, or of a delegate's blob.
        outputs: The values that the node computes: "float32 [1, 10]"; empty for an operator in a delegate.
        arguments: The non-tensor arguments of a kernel, such as "1" and "[2, 2]".
    """

    id: str
    kind: str
    name: str
    operator: str = ""
    module: str = ""
    source: str = ""
    handles: list[int] = field(default_factory=list)
    backend: str = ""
    parent: str = ""
    bytes: int = 0
    outputs: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Edge:
    """A value that goes from one node to another. `value` is its index in the method, `bytes` its largest size.

    Edges to operations of a blob have `value` -1 and no dtype or shape: see the `outputs` of the source node.
    """

    source: str
    target: str
    value: int
    dtype: str = ""
    shape: list[int] = field(default_factory=list)
    bytes: int = 0


@dataclass(slots=True)
class Group:
    """A module: its path, its parent module's path, and the ids of the nodes directly in it."""

    module: str
    parent: str
    nodes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class MethodGraph:
    """The graph of a method."""

    name: str
    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)

    @property
    def sources(self) -> dict[str, list[str]]:
        """Map the id of each node to the ids of the nodes whose values it reads; nodes without inputs are missing."""
        sources_of: dict[str, dict[str, None]] = {}
        for edge in self.edges:
            sources_of.setdefault(edge.target, {})[edge.source] = None
        return {target: list(sources) for target, sources in sources_of.items()}

    @property
    def groups(self) -> list[Group]:
        """The modules of all nodes, and the modules that contain these, each after its parent."""
        groups = {"": Group("", "")}
        for node in self.nodes:
            parts = node.module.split(".") if node.module else []
            for length in range(1, len(parts) + 1):
                path = ".".join(parts[:length])
                groups.setdefault(path, Group(path, ".".join(parts[: length - 1])))
            groups[node.module].nodes.append(node.id)
        return list(groups.values())


@dataclass(slots=True)
class Graph:
    """The graphs of a file's methods. `complete` is False if the file does not name the operators of its delegates."""

    complete: bool
    methods: list[MethodGraph]

    def as_dict(self) -> dict[str, Any]:
        """Return the graphs as a dict for JSON; docs/ci.md lists its keys."""
        return {
            "schema": SCHEMA,
            "complete": self.complete,
            "methods": [
                asdict(method) | {"groups": [asdict(group) for group in method.groups]} for method in self.methods
            ],
        }

    def text(self, depth: int | None = None) -> str:
        """Return the graphs as trees of modules.

        Args:
            depth: Number of levels of modules to open; by default all. A deeper module is shown as one line,
                with the sums of its operators.
        """
        lines = [line for method in self.methods for line in _tree(method, depth)]
        if not self.complete:
            lines.append("the file has no metadata of edgecore: what its delegates compute is unknown")
        return join_lines(lines)


def _tree(method: MethodGraph, depth: int | None) -> Iterator[str]:
    """Yield the lines of a method: its delegates, then the tree of its modules with their operators."""
    inside = [node for node in method.nodes if node.kind in ("kernel", "operator", "operation")]
    yield f"{method.name}: {_sum(inside)}"
    for node in method.nodes:
        if node.kind == "delegate":
            yield f"  {node.id} delegate {node.name}: {len(node.handles)} operators, blob of {node.bytes:,} bytes"
    children: dict[str, list[str]] = {}
    own: dict[str, list[Node]] = {}
    for group in method.groups:
        if group.module:
            children.setdefault(group.parent, []).append(group.module)
    for node in inside:
        own.setdefault(node.module, []).append(node)

    def below(path: str) -> list[Node]:
        return [*own.get(path, ()), *(node for child in children.get(path, ()) for node in below(child))]

    def show(path: str, level: int) -> Iterator[str]:
        indent = "  " * (level + 1)
        if depth is not None and level >= depth:
            return
        rows = [_line(node) for node in own.get(path, ())]
        for line, repeated in groupby(rows):
            count = len(list(repeated))
            yield f"{indent}{line}" + (f"  ({count} times)" if count > 1 else "")
        for child in children.get(path, ()):
            nodes = below(child)
            if nodes:
                yield f"{indent}{child.rpartition('.')[2]}: {_sum(nodes)}"
                yield from show(child, level + 1)

    yield from show("", 0)


def _line(node: Node) -> str:
    weights = f"  weights {node.bytes:,} bytes" if node.bytes else ""
    return f"{node.name:<24} {node.backend}  {', '.join(node.outputs)}{weights}".rstrip()


def _sum(nodes: Sequence[Node]) -> str:
    """Summarize nodes: "12 operators (10 XnnpackBackend, 2 kernels), weights 64 bytes"."""
    counts: dict[str, int] = {}
    for node in nodes:
        counts[node.backend] = counts.get(node.backend, 0) + 1
    places = ", ".join(f"{count} {name}" for name, count in sorted(counts.items(), key=lambda row: -row[1]))
    weights = sum(node.bytes for node in nodes)
    text = f"{len(nodes)} operator{'s' if len(nodes) != 1 else ''}" + (f" ({places})" if places else "")
    return text + (f", weights {weights:,} bytes" if weights else "")
