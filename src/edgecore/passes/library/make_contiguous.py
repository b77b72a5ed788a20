"""Compute in the default dim order, for backends that support no other dim order."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from edgecore.ir.control_flow import graph_modules, is_control_flow
from edgecore.ir.delegate import is_delegate_call
from edgecore.ir.dialect.dim_orders import MEMORY_FORMATS, dim_order
from edgecore.ir.graph import Editor, edit, fake_mode
from edgecore.ir.program.constants import Constants
from edgecore.ir.torch_compat import FakeTensorMode
from edgecore.passes.decompose.strided_inputs import lay_out_constant
from edgecore.passes.library.merge_views import merge_views
from edgecore.passes.library.remove_identities import remove_identities

aten = torch.ops.aten


def make_contiguous(program: ExportedProgram) -> ExportedProgram:
    """Give all values the default dim order, except those that enter or leave the program or a delegate.

    Inputs, mutable buffers and results of delegates are copied before operators read them. Results of the program and
    operands of delegates are copied back to their previous dim order. Weights are stored in the default dim order.
    Copies and views that no longer change anything are removed.

    Args:
        program: A program in the edge dialect, which is edited. It may have delegates.

    Returns:
        `program`.
    """
    with edit(program) as graph_module:
        mode = fake_mode(graph_module)
        constants = Constants(program)
        for part in graph_modules(graph_module):
            _convert(part, constants, mode)
    return merge_views(remove_identities(program))


def _convert(graph_module: GraphModule, constants: Constants, mode: FakeTensorMode) -> None:
    nodes = list(graph_module.graph.nodes)
    sinks = [node for node in nodes if _is_sink(node)]
    orders = {source: _order(source) for sink in sinks for source in sink.all_input_nodes}
    for node in nodes:
        if constants.has(node) and not any(map(is_delegate_call, node.users)):
            lay_out_constant(constants.program, constants.specs[node.name])
            _make_dense(node, mode)
        elif _is_fixed(node):
            if _order(node):
                _copy_for_operators(graph_module, node, mode)
            elif node.op == "placeholder":
                _make_dense(node, mode)  # also set strides of dims of size 1: operators derive dim orders from strides
        elif node.op == "call_function" and not is_control_flow(node) and not _copies_back(node):
            node.args = tuple(map(_contiguous_format, node.args))
            node.kwargs = {name: _contiguous_format(value) for name, value in node.kwargs.items()}
            _make_dense(node, mode)
    copies: dict[Node, Node] = {}
    for sink in sinks:
        for source in sink.all_input_nodes:
            if orders[source] != _order(source):
                if source not in copies:
                    format_ = MEMORY_FORMATS[orders[source]]
                    copies[source] = Editor(graph_module, sink, mode).call(
                        aten.clone.default, source, memory_format=format_
                    )
                sink.replace_input_with(source, copies[source])


def _order(node: Node) -> tuple[int, ...]:
    """Return the dim order of a channels-last tensor; empty for other values."""
    val = node.meta.get("val")
    order = dim_order(val) if isinstance(val, torch.Tensor) else None
    return order if order in MEMORY_FORMATS else ()


def _is_sink(node: Node) -> bool:
    """Return True for a node whose operands must keep the dim orders that they had before the pass."""
    return node.op == "output" or is_delegate_call(node)


def _is_fixed(node: Node) -> bool:
    """Return True for a value whose dim order the caller or a delegate chooses."""
    if node.target is operator.getitem:
        return is_delegate_call(node.args[0])  # type: ignore[arg-type]
    return node.op == "placeholder" or is_delegate_call(node)


def _copies_back(node: Node) -> bool:
    """Return True for a copy that gives a program's result or a delegate's operand its required dim order."""
    return node.target is aten.clone.default and bool(_order(node)) and all(map(_is_sink, node.users))


def _copy_for_operators(graph_module: GraphModule, node: Node, mode: FakeTensorMode) -> None:
    """Let operators that compute with the elements of `node` read a contiguous copy; other users keep `node`."""
    computing = [user for user in node.users if isinstance(_val(user), (torch.Tensor, tuple, list))]
    readers = [user for user in computing if not _is_sink(user) and user.target is not aten.clone.default]
    if not readers:
        return
    position = node.next
    while position.op == "placeholder":
        position = position.next
    copy = Editor(graph_module, position, mode).call(aten.clone.default, node, memory_format=torch.contiguous_format)
    for reader in readers:
        reader.replace_input_with(node, copy)


def _val(node: Node) -> Any:
    return node.meta.get("val")


def _make_dense(node: Node, mode: FakeTensorMode) -> None:
    with mode:
        node.meta["val"] = _dense(_val(node))


def _dense(val: Any) -> Any:
    if isinstance(val, (tuple, list)):
        return type(val)(map(_dense, val))
    if not isinstance(val, torch.Tensor) or dim_order(val) is None:
        return val
    return val.clone(memory_format=torch.contiguous_format)


def _contiguous_format(value: Any) -> Any:
    return torch.contiguous_format if value in MEMORY_FORMATS.values() else value
