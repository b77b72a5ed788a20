"""Trace a call, and replace the call by the operators of the traced graph."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from edgecore.errors import CompileError
from edgecore.ir.graph import Editor, describe
from edgecore.ir.torch_compat import OpOverload


def call_of(node: Node, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that takes the values of a call's input nodes, and calls `function` like the call."""
    leaves = node.all_input_nodes

    def call(*values: Any) -> Any:
        by_node = dict(zip(leaves, values, strict=True))
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda leaf: by_node[leaf])
        return function(*args, **kwargs)

    return call


def trace(
    function: Callable[..., Any], leaves: Sequence[Node], mode: Any, table: Mapping[OpOverload, Callable[..., Any]]
) -> GraphModule:
    """Trace `function` on the fake tensors of `leaves`; decompose composite operators and the operators in `table`."""
    from edgecore.ir.torch_compat import enable_python_dispatcher, make_fx

    with mode, torch.no_grad(), enable_python_dispatcher():
        return make_fx(function, decomposition_table=table, tracing_mode="real")(*(leaf.meta["val"] for leaf in leaves))


def keep_in_place(new: Node) -> OpOverload | None:
    """Return None for every call, so that in-place operators stay."""
    return None


def copy_traced(
    traced: Graph,
    leaves: Sequence[Node],
    editor: Editor,
    functional: Callable[[Node], OpOverload | None] = keep_in_place,
) -> Any:
    """Copy a traced graph to a position in another graph.

    Args:
        traced: The graph.
        leaves: The nodes that replace its placeholders.
        editor: The position, directly before the call that was traced.
        functional: Returns the functional overload that replaces a traced in-place call, or None to keep the call.
            Later nodes read the result of the overload.

    Returns:
        The nodes of the traced graph's results, nested in the same way.

    Raises:
        CompileError: The traced call creates a constant tensor.
    """
    inner: dict[Node, Any] = dict(zip((n for n in traced.nodes if n.op == "placeholder"), leaves, strict=True))
    results: Any = None
    for new in traced.nodes:
        if new.op == "call_function":
            args, kwargs = torch.fx.map_arg((new.args, new.kwargs), inner.__getitem__)
            form = functional(new)
            inner[new] = editor.call(form or new.target, *args, val=new.meta.get("val"), **kwargs)
            if form is not None:
                inner[new.args[0]] = inner[new]
        elif new.op == "output":
            results = torch.fx.map_arg(new.args[0], inner.__getitem__)
        elif new.op == "get_attr":
            raise CompileError(
                f"{describe(editor.origin)}: its decomposition creates a constant tensor; "
                "create this tensor in the model instead"
            )
    return results


def replace_results(node: Node, results: Any) -> list[tuple[Node, Node]]:
    """Let the users of a call read the results of the graph that `copy_traced` copied, and erase the call.

    Args:
        node: The call.
        results: The node that replaces the call, or a list of nodes that replace the `getitem` nodes of its results;
            an item may itself be a list.

    Returns:
        Each node that was replaced, with the node that replaces it.

    Raises:
        CompileError: A user reads several results at once.
    """
    replaced: list[tuple[Node, Node]] = []
    lists: list[Node] = []
    pending = [(node, results)]
    while pending:
        old, new = pending.pop()
        if isinstance(new, Node):
            replaced.append((old, new))
            continue
        lists.append(old)
        for user in old.users:
            if user.target is not operator.getitem:
                raise CompileError(
                    f"{describe(old)} returns several values and {user.name} reads all of them at once; "
                    "read each one by its index"
                )
            pending.append((user, new[user.args[1]]))
    for old, new in replaced:
        old.replace_all_uses_with(new)
        node.graph.erase_node(old)
    for old in reversed(lists):
        node.graph.erase_node(old)
    return replaced
