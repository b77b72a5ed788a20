"""Control flow: the higher-order operators of the edge dialect and the graphs that they run.

The bodies of `cond`, `map`, `scan` and `while_loop` are closed graphs: they read outer values only through their
placeholders. In the edge dialect every tensor that enters or leaves a body is dense and in the default dim order.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

COND = torch.ops.higher_order.cond
MAP = torch.ops.higher_order.map_impl
SCAN = torch.ops.higher_order.scan
WHILE = torch.ops.higher_order.while_loop

CONTROL_FLOW = (COND, MAP, SCAN, WHILE)


@dataclass(frozen=True)
class ControlFlow:
    """The bodies and the operands of one control-flow node.

    The inputs of a body are `carried`, then one slice of each tensor in `scanned`, then `captured`. A loop body returns
    the next `carried` values, then slices, which the node stacks along a new dim 0. A branch of `cond` returns the
    results of the node.

    Attributes:
        node: The node.
        bodies: (true branch, false branch) of `cond`, (body,) of `map` and `scan`, (condition, body) of `while_loop`.
        predicate: The condition of `cond`.
        carried: Initial loop-carried values, which the body replaces in each iteration.
        scanned: Tensors from which each iteration reads one slice along dim 0.
        captured: The other operands, which are the same in every iteration of a loop.
    """

    node: Node
    bodies: tuple[GraphModule, ...]
    predicate: Any = None
    carried: tuple[Any, ...] = ()
    scanned: tuple[Any, ...] = ()
    captured: tuple[Any, ...] = ()

    @property
    def operands(self) -> tuple[Any, ...]:
        """The operands that each body receives as placeholders, in the same order."""
        return self.carried + self.scanned + self.captured

    def bound(self, body: GraphModule) -> Iterator[tuple[Node, Any, bool]]:
        """Yield (placeholder, operand, True if the placeholder is a slice of the operand) for each input of a body."""
        sliced = range(len(self.carried), len(self.carried) + len(self.scanned))
        for index, (placeholder, operand) in enumerate(zip(placeholders(body), self.operands, strict=True)):
            yield placeholder, operand, index in sliced


def is_control_flow(node: Node) -> bool:
    """Return True if `node` calls a control-flow operator of the edge dialect."""
    return node.op == "call_function" and node.target in CONTROL_FLOW


def control_flow(node: Node) -> ControlFlow:
    """Return the bodies and the operands of a control-flow node."""
    args: tuple[Any, ...] = node.args
    if node.target is COND:
        predicate, true, false, operands = args
        return ControlFlow(node, _modules(node, true, false), predicate=predicate, captured=tuple(operands))
    if node.target is MAP:
        body, scanned, captured = args
        return ControlFlow(node, _modules(node, body), scanned=tuple(scanned), captured=tuple(captured))
    if node.target is SCAN:
        body, carried, scanned, captured = args
        return ControlFlow(
            node, _modules(node, body), carried=tuple(carried), scanned=tuple(scanned), captured=tuple(captured)
        )
    condition, body, carried, captured = args
    return ControlFlow(node, _modules(node, condition, body), carried=tuple(carried), captured=tuple(captured))


def _modules(node: Node, *attributes: Node) -> tuple[GraphModule, ...]:
    owner = node.graph.owning_module
    assert owner is not None
    return tuple(getattr(owner, str(attribute.target)) for attribute in attributes)


def placeholders(body: GraphModule) -> list[Node]:
    """List the placeholder nodes of a graph."""
    return [node for node in body.graph.nodes if node.op == "placeholder"]


def results(body: GraphModule) -> tuple[Any, ...]:
    """Return the results of a graph as a tuple, even for a single value."""
    value = body.graph.output_node().args[0]
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def result_users(node: Node) -> list[tuple[Node, int]]:
    """List the `getitem` nodes that read the results of a node, each with the index of the result."""
    users = [user for user in node.users if user.target is operator.getitem]
    return [(user, int(user.args[1])) for user in users]  # type: ignore[arg-type]


def graph_modules(graph_module: GraphModule) -> Iterator[GraphModule]:
    """Yield a graph module, then all bodies of branches and loops inside it, outer ones before inner ones."""
    yield graph_module
    for node in graph_module.graph.nodes:
        if is_control_flow(node):
            for body in control_flow(node).bodies:
                yield from graph_modules(body)


def in_execution_order(graph_module: GraphModule) -> Iterator[Node]:
    """Yield the nodes in the order of execution; a control-flow node comes before its bodies and again after them."""
    for node in graph_module.graph.nodes:
        yield node
        if is_control_flow(node):
            for body in control_flow(node).bodies:
                yield from in_execution_order(body)
            yield node
