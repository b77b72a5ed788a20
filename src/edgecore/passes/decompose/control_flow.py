"""Make all tensors that enter or leave a branch or loop body contiguous."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.fx import GraphModule, Node

from edgecore.errors import CompileError
from edgecore.ir.control_flow import COND, WHILE, control_flow, is_control_flow, placeholders, result_users, results
from edgecore.ir.graph import Editor, describe, same_layout, source_line
from edgecore.ir.torch_compat import FakeTensorMode

aten = torch.ops.aten


def make_results_dense(node: Node) -> set[Node]:
    """Make the fake tensors (`val`) of a control-flow node's results contiguous.

    Returns:
        The getitem nodes whose `val` changed.
    """
    vals = tuple(_dense(val) for val in node.meta["val"])
    node.meta["val"] = vals
    changed = set()
    for user, index in result_users(node):
        if not same_layout(user.meta["val"], vals[index]):
            user.meta["val"] = vals[index]
            changed.add(user)
    return changed


def make_placeholders_dense(body: GraphModule) -> set[Node]:
    """Make the fake tensors (`val`) of a branch's or loop body's placeholders contiguous.

    Returns:
        The placeholders whose `val` changed.
    """
    changed = set()
    for node in placeholders(body):
        val = _dense(node.meta["val"])
        if not same_layout(node.meta["val"], val):
            node.meta["val"] = val
            changed.add(node)
    return changed


def make_operands_dense(graph_module: GraphModule, node: Node, mode: FakeTensorMode) -> None:
    """Copy the operands of a control-flow node that are not contiguous.

    The bodies need contiguous operands, because `make_placeholders_dense` makes the placeholders of bodies contiguous.
    The function also gives the node a source line if torch recorded none.
    """
    if not source_line(node):
        _borrow_source(node)
    copy_strided(Editor(graph_module, node, mode), node, control_flow(node).operands)


def copy_strided(editor: Editor, node: Node, operands: Iterable[Any]) -> None:
    """Insert contiguous copies of the operands of `node` that are tensors and not contiguous."""
    for operand in operands:
        if _is_strided(operand):
            node.replace_input_with(operand, _clone(editor, operand))


def copy_body_results(body: GraphModule, node: Node, mode: FakeTensorMode) -> None:
    """Insert copies of results of a branch or loop body that are not contiguous, or that are inputs of the loop body.

    The emitter writes a loop's next carried values over the current ones, so a result must not alias an input. Nodes of
    the body without a source line receive the line of the control-flow node.
    """
    flow = control_flow(node)
    if node.target is WHILE and body is flow.bodies[0]:
        return  # the condition needs no copy: the jump reads the condition before the loop writes its carried values
    output = body.graph.output_node()
    editor = Editor(body, output, mode)
    returned: list[Any] = []
    for value in results(body):
        is_input = isinstance(value, Node) and value.op == "placeholder" and isinstance(value.meta["val"], torch.Tensor)
        is_state = is_input and node.target is not COND
        returned.append(_clone(editor, value) if _is_strided(value) or is_state else value)
    output.args = (tuple(returned),)
    for inner in body.graph.nodes:
        if inner.op == "call_function" and not source_line(inner) and "stack_trace" in node.meta:
            inner.meta["stack_trace"] = node.meta["stack_trace"]
    _check_results(node, returned, len(flow.carried))


def _check_results(node: Node, returned: list[Any], carried: int) -> None:
    """Raise an error if a result of a branch or body has another dtype or rank than the control-flow node's result."""
    for index, (value, val) in enumerate(zip(returned, node.meta["val"], strict=True)):
        inner = value.meta["val"] if isinstance(value, Node) else value
        stacked = node.target is not COND and index >= carried
        if isinstance(val, torch.Tensor) != isinstance(inner, torch.Tensor):
            raise CompileError(
                f"{describe(node)}: result {index} is a tensor in one branch or body and a number in another; "
                "return a tensor in both"
            )
        if isinstance(val, torch.Tensor) and (val.dtype != inner.dtype or val.dim() != inner.dim() + stacked):
            raise CompileError(
                f"{describe(node)}: result {index} is {inner.dtype} of rank {inner.dim()} in a branch or body, "
                f"where {val.dtype} of rank {val.dim() - stacked} is expected"
            )


def _dense(val: Any) -> Any:
    if not isinstance(val, torch.Tensor) or val.is_contiguous():
        return val
    return torch.empty_like(val, memory_format=torch.contiguous_format)


def _is_strided(value: Any) -> bool:
    val = value.meta["val"] if isinstance(value, Node) else None
    return isinstance(val, torch.Tensor) and not val.is_contiguous()


def _clone(editor: Editor, value: Node) -> Node:
    return editor.call(aten.clone.default, value, memory_format=torch.contiguous_format)


def _borrow_source(node: Node) -> None:
    """Give a control-flow node the source line of the closest call before it, because torch records none for it."""
    before = node.prev
    while before.op == "call_function" and (is_control_flow(before) or not source_line(before)):
        before = before.prev
    if before.op == "call_function":
        node.meta["stack_trace"] = before.meta["stack_trace"]
