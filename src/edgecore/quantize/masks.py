"""Keep attention masks out of quantization: values that a softmax reduces to 0 stay in floating point.

A mask adds numbers such as -1e9 or -infinity to scores. A scale that covers these would round all scores to 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch.fx import GraphModule, Node

from edgecore.ir.dialect.op_sets import EXPORTED_MOVEMENT_NAMES
from edgecore.ir.op_args import argument
from edgecore.ir.torch_compat import OpOverload, schema_of

aten = torch.ops.aten

HIDDEN = 1000.0
"""Scores of at least this magnitude hide elements: exp(-1000) is 0 in float32."""

_TRIANGLES = frozenset({aten.triu.default, aten.tril.default})

_PRODUCTS = frozenset({aten.mul.Tensor, aten.mul.Scalar, aten.mul_.Tensor, aten.mul_.Scalar})
_QUOTIENTS = frozenset({aten.div.Tensor, aten.div.Scalar, aten.div_.Tensor, aten.div_.Scalar})

_SCORES = {
    aten.softmax.int: 0,
    aten._softmax.default: 0,
    aten.log_softmax.int: 0,
    aten._log_softmax.default: 0,
    aten.scaled_dot_product_attention.default: 3,
}
"""Operators with a softmax -> index of the argument with the scores or the mask."""


@contextmanager
def collect_hidden_observers(observed: GraphModule) -> Iterator[set[str]]:
    """Yield a set that collects the names of observers that see magnitudes of 1000 (`HIDDEN`) or more before a softmax.

    Once in the set, an observer observes nothing, because torchao's histogram fails on such large numbers. At the end,
    the observers of values that a multiplication turns into such numbers are added to the set.

    Args:
        observed: A module with observers, which the caller runs on the calibration samples inside the context.
    """
    names: set[str] = set()

    def watched(name: str, observe: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
        def forward(value: torch.Tensor) -> torch.Tensor:
            if name not in names and value.numel() and bool(value.abs().max() >= HIDDEN):
                names.add(name)
            return value if name in names else observe(value)

        return forward

    observers = {observed.get_submodule(name): name for name in _before_softmax(observed)}
    for observer, name in observers.items():
        observer.forward = watched(name, observer.forward)
    try:
        yield names
        names |= _multiplied(observed, names)
    finally:
        for observer in observers:
            del observer.forward


def remove_observers(observed: GraphModule, names: set[str]) -> None:
    """Remove the calls of the observers `names`, so that the observed values stay in floating point.

    If values share an observer under several names, all its calls are removed.
    """
    removed = {observed.get_submodule(name) for name in names}
    for node in list(observed.graph.nodes):
        if node.op == "call_module" and observed.get_submodule(node.target) in removed:
            node.replace_all_uses_with(node.args[0])
            observed.graph.erase_node(node)
    observed.recompile()


def _before_softmax(observed: GraphModule) -> set[str]:
    """Return the names of the observers of scores, of masks, and of values from which masks are computed."""
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


def _multiplied(observed: GraphModule, hidden: set[str]) -> set[str]:
    """Return the names of observers of values that a large factor turns into masks: `keep - 1` in `(keep - 1) * 1e9`.

    Quantizing `keep - 1` with an error of a thousandth would change the mask by 1e6, and so hide all scores.

    Args:
        observed: The module with observers.
        hidden: The names of the observers that saw a magnitude of at least `HIDDEN` (1000).
    """
    names = set[str]()
    starts = [node for node in observed.graph.nodes if node.op == "call_module" and node.target in hidden]
    open_nodes, seen = [(node, False) for start in starts for node in start.all_input_nodes], set[tuple[Node, bool]]()
    while open_nodes:
        node, is_multiplied = open_nodes.pop()
        if (node, is_multiplied) in seen:
            continue
        seen.add((node, is_multiplied))
        if node.op == "call_module":
            if not is_multiplied or node.target in hidden:
                continue
            names.add(str(node.target))
        elif not _keeps_elements(node):
            continue
        multiplies = is_multiplied or (node.target in _PRODUCTS | _QUOTIENTS and _is_large(node))
        open_nodes += [(source, multiplies) for source in node.all_input_nodes]
    return names


def _is_large(node: Node) -> bool:
    """Return True if a product or quotient may be `HIDDEN` (1000) or more times as large as its first operand."""
    factor = node.args[1]
    if not isinstance(factor, (int, float)):
        return True
    return bool(abs(factor) >= HIDDEN if node.target in _PRODUCTS else abs(factor) <= 1 / HIDDEN)


def _scores(node: Node) -> Node | None:
    if node.target not in _SCORES:
        return None
    arguments = schema_of(node.target).arguments
    scores = argument(node, arguments[_SCORES[node.target]].name)
    return scores if isinstance(scores, Node) else None


def _keeps_elements(node: Node) -> bool:
    """Return True for an elementwise operator, and for one that only moves elements."""
    target = node.target
    if not isinstance(target, OpOverload):
        return False
    return (
        torch.Tag.pointwise in target.tags
        or target in _TRIANGLES
        or target.overloadpacket.__name__ in EXPORTED_MOVEMENT_NAMES
    )
