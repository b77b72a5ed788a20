"""Masks of attention under quantization: values with numbers so low that a softmax leaves them out stay unquantized.

A scale for -1e9, or for infinity, would leave no integers for the scores beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch.fx import GraphModule, Node

from edgecore.ir.op_args import argument
from edgecore.ir.op_sets import EXPORTED_MOVEMENT_NAMES

aten = torch.ops.aten

HIDDEN = 1000.0
"""The magnitude of numbers before a softmax from which on they hide elements: exp(-1000) is 0 in float32."""

_TRIANGLES = frozenset({aten.triu.default, aten.tril.default})

_SCORES = {
    aten.softmax.int: 0, aten._softmax.default: 0, aten.log_softmax.int: 0, aten._log_softmax.default: 0,
    aten.scaled_dot_product_attention.default: 3,
}  # fmt: skip
"""Operators that leave out what a mask hides, and the index of their scores or mask."""


@contextmanager
def hidden_values_found(observed: GraphModule) -> Iterator[set[str]]:
    """Yield a set that receives the names of observers that see hidden elements on the way to a softmax.

    Args:
        observed: A module with observers, which runs on the calibration samples within the context.
    """
    names: set[str] = set()

    def look(name: str, observer: torch.nn.Module, values: tuple[Any, ...]) -> None:
        if name not in names and values[0].numel() and bool(values[0].abs().max() >= HIDDEN):
            names.add(name)
            observer.forward = _unobserved  # a histogram of such numbers fails

    hooks = [
        observed.get_submodule(name).register_forward_pre_hook(partial(look, name))
        for name in _before_softmax(observed)
    ]
    try:
        yield names
    finally:
        for hook in hooks:
            hook.remove()


def _unobserved(value: torch.Tensor) -> torch.Tensor:
    return value


def remove_observers(observed: GraphModule, names: set[str]) -> None:
    """Remove observers, and those that share their range, so that their values stay in floating point."""
    removed = {observed.get_submodule(name) for name in names}
    for node in list(observed.graph.nodes):
        if node.op == "call_module" and observed.get_submodule(node.target) in removed:
            node.replace_all_uses_with(node.args[0])
            observed.graph.erase_node(node)
    observed.recompile()


def _before_softmax(observed: GraphModule) -> set[str]:
    """Return the names of the observers of scores, of masks, and of what masks are computed of elementwise."""
    names = set()
    open_nodes, seen = [scores for node in observed.graph.nodes if (scores := _scores(node)) is not None], set[Node]()
    while open_nodes:
        node = open_nodes.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.op == "call_module":
            names.add(str(node.target))
        if node.op == "call_module" or _keeps_elements(node):
            open_nodes += node.all_input_nodes
    return names


def _scores(node: Node) -> Node | None:
    if node.target not in _SCORES:
        return None
    arguments = node.target._schema.arguments
    scores = argument(node, arguments[_SCORES[node.target]].name)
    return scores if isinstance(scores, Node) else None


def _keeps_elements(node: Node) -> bool:
    """Return True for an elementwise operator, or one that moves elements."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return False
    return (
        torch.Tag.pointwise in target.tags
        or target in _TRIANGLES
        or target.overloadpacket.__name__ in EXPORTED_MOVEMENT_NAMES
    )
