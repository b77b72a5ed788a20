"""Complete graphs that code outside of edgecore has edited: compute missing `val`s of calls and of their readers."""

from __future__ import annotations

from typing import Any

from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from edgecore.errors import CompileError
from edgecore.ir.control_flow import CONTROL_FLOW, control_flow, is_control_flow
from edgecore.ir.delegate import is_delegate_call
from edgecore.ir.graph import (
    REGIONS,
    compute_val_of,
    describe,
    edit,
    fake_mode,
    has_result,
    same_layout,
)
from edgecore.ir.torch_compat import AUTOCAST_CALLS


def complete_program(program: ExportedProgram, where: str) -> None:
    """Compute missing `val`s in the graph of a program like `complete_vals`, and complete its signature.

    Args:
        program: The program.
        where: The origin of the edit, for messages: `after the pass my_pass`.

    Raises:
        CompileError: The graph is not valid, or a `val` cannot be computed; see `complete_vals`.
    """
    try:
        if complete_vals(program.graph_module):
            with edit(program):
                pass
    except CompileError as error:
        raise CompileError(f"{where}: {error}") from error


def complete_vals(graph_module: GraphModule) -> bool:
    """Compute, in order, the `val` of calls without one, and of calls that read values whose layout has changed.

    torch's `subgraph_rewriter` and `graph.call_function` make calls without `val`. Symbolic sizes stay symbolic. If
    every call has a `val`, the graph does not change.

    Returns:
        True if a `val` was computed.

    Raises:
        CompileError: A node reads a node that was erased or is computed later, an input has no `val`, or the `val` of a
            call cannot be computed. The message names the node.
    """
    mode: Any = None
    is_changed = False
    changed: set[Node] = set()
    computed: set[Node] = set()
    for node in graph_module.graph.nodes:
        for source in node.all_input_nodes:
            if source not in computed:
                raise CompileError(
                    f"{_described(node)} reads the node {source.name}, which the graph does not compute before it: "
                    "insert that node earlier, and replace its uses before it is erased"
                )
        computed.add(node)
        if is_control_flow(node):
            for body in control_flow(node).bodies:
                is_changed |= complete_vals(body)
        if node.op != "call_function" or node.target in (*REGIONS, *AUTOCAST_CALLS) or not has_result(node):
            continue
        before = node.meta.get("val")
        is_new = "val" not in node.meta
        if not is_new and (before is None or changed.isdisjoint(node.all_input_nodes) or is_control_flow(node)):
            continue
        is_changed = True
        mode = mode or fake_mode(graph_module)
        node.meta["val"] = after = _compute(mode, node)
        if is_new or not same_layout(before, after):
            changed.add(node)
    return is_changed


def _compute(mode: Any, node: Node) -> Any:
    modules = node.target in CONTROL_FLOW or is_delegate_call(node)

    def value(source: Node) -> Any:
        if source.op == "get_attr" and modules and "val" not in source.meta:
            return getattr(node.graph.owning_module, str(source.target))
        if source.op == "get_attr" and "val" not in source.meta:
            source.meta["val"] = mode.from_tensor(getattr(node.graph.owning_module, str(source.target)))
        if "val" not in source.meta:
            raise CompileError(
                f"{_described(node)} reads {source.name}, an input without val: a pass that adds inputs sets their val"
            )
        return source.meta["val"]

    try:
        args, kwargs = map_arg((node.args, node.kwargs), value)
        return compute_val_of(mode, node.target, args, kwargs)  # type: ignore[arg-type]
    except CompileError:
        raise
    except Exception as error:
        raise CompileError(
            f"{_described(node)}, which has no val or reads a value that has changed, cannot be computed: "
            f"{str(error).strip().partition(chr(10))[0]}"
        ) from error


def _described(node: Node) -> str:
    return describe(node) if node.op == "call_function" else f"the node {node.name}"
