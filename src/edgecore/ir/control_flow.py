"""Control flow: the higher-order operators of the edge dialect and the graphs that they run.

Graphs called by `cond`, `map`, `scan` and `while_loop` are closed: all that they read comes in through placeholders. In the
edge dialect every tensor that enters or leaves one is dense in the default dim order.
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
    """One control-flow node.

    `bodies` are the graphs: (true, false), (body,), (body,) or (condition, body). Each takes the state `carried` from one
    iteration to the next, then slices along dimension 0 of `scanned`, then `captured` as it is. A body returns the next
    state, then what is stacked along a new dimension 0; a branch returns the results.
    """

    node: Node
    bodies: tuple[GraphModule, ...]
    predicate: Any = None
    carried: tuple[Any, ...] = ()
    scanned: tuple[Any, ...] = ()
    captured: tuple[Any, ...] = ()

    @property
    def operands(self) -> tuple[Any, ...]:
        """What the placeholders of each body stand for, in their order."""
        return self.carried + self.scanned + self.captured

    def bound(self, body: GraphModule) -> Iterator[tuple[Node, Any, bool]]:
        """(placeholder, operand, whether it is a slice of the operand) for each input of a body."""
        sliced = range(len(self.carried), len(self.carried) + len(self.scanned))
        for index, (placeholder, operand) in enumerate(zip(placeholders(body), self.operands, strict=True)):
            yield placeholder, operand, index in sliced


def is_control_flow(node: Node) -> bool:
    """Whether `node` calls a higher-order operator that the edge dialect has."""
    return node.op == "call_function" and node.target in CONTROL_FLOW


def control_flow(node: Node) -> ControlFlow:
    """The parts of a control-flow node."""
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
    """The inputs of a graph."""
    return [node for node in body.graph.nodes if node.op == "placeholder"]


def results(body: GraphModule) -> tuple[Any, ...]:
    """What a graph returns, also where it returns a single value that is no tuple."""
    value = body.graph.output_node().args[0]
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def result_users(node: Node) -> list[tuple[Node, int]]:
    """(getitem node, index) of each result of a node that is read."""
    return [(user, int(user.args[1])) for user in node.users if user.target is operator.getitem]  # type: ignore[arg-type]
