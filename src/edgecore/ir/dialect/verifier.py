"""The verifier of edge programs. Every error names the node, the rule and the model's source line."""

from __future__ import annotations

import operator
from collections.abc import Collection
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from edgecore.errors import CompileError
from edgecore.ir.control_flow import control_flow, graph_modules, is_control_flow, results
from edgecore.ir.dialect.dim_orders import dim_order
from edgecore.ir.dialect.dtype_rules import dtype_finding
from edgecore.ir.dialect.dtypes import DTYPE_LETTERS
from edgecore.ir.dialect.edge_operators import is_edge_operator
from edgecore.ir.failures import failures_named
from edgecore.ir.graph import describe, vals
from edgecore.ir.torch_compat import OpOverload

_COMPLEX_ADVICE = "compute this with real and imaginary parts, which torch.view_as_real gives"

_ADVICE: dict[Any, str] = {
    torch.ops.aten._linalg_svd.default: "no runtime has singular values, which the 2-norm and the nuclear norm of a "
    "matrix need; use the norm 'fro', or norms of vectors",
}
"""Refused operator -> advice on how to avoid it. For other operators, the advice is to register or replace them."""


class VerificationError(CompileError):
    """A graph that breaks a rule of the edge dialect."""


def verify(program: ExportedProgram, preserved: Collection[OpOverload] = ()) -> None:
    """Check that a program is in the edge dialect.

    Rules for the graph, and for the bodies of branches and loops:
    - Only operators of the dialect are called. Every call has a `val` and follows the dtype rule of its operator.
    - Results have a dtype of the runtime, and are dense in the default or the channels-last dim order.
    - `get_attr` nodes read only modules: delegates and bodies of control flow.
    - Tensors enter and leave a body in the default dim order.

    Args:
        program: The program.
        preserved: Operators that are also allowed, because a backend asked not to decompose them.

    Raises:
        VerificationError: A node breaks a rule; the message is about the first such node.
    """
    with failures_named("the verifier"):
        _verify(program, preserved)


def _verify(program: ExportedProgram, preserved: Collection[OpOverload]) -> None:
    for part in graph_modules(program.graph_module):
        for node in part.graph.nodes:
            if node.op == "call_function":
                _verify_call(node, preserved)
                if is_control_flow(node):
                    _verify_control_flow(node)
            elif node.op == "get_attr":
                _verify_attribute(part, node)
            elif node.op not in ("placeholder", "output"):
                raise VerificationError(f"{describe(node)}: an edge graph has no {node.op} nodes")


def _verify_control_flow(node: Node) -> None:
    flow = control_flow(node)
    for value in (*flow.operands, *(value for body in flow.bodies for value in results(body))):
        val = value.meta["val"] if isinstance(value, Node) else None
        if isinstance(val, torch.Tensor) and not val.is_contiguous():
            raise VerificationError(
                f"{describe(node)}: {value} enters or leaves a branch or loop body in dim order {dim_order(val)}; "
                "the dim order must be the default one"
            )


def _verify_call(node: Node, preserved: Collection[OpOverload]) -> None:
    if not is_edge_operator(node.target) and node.target not in preserved:
        _verify_complex_readers(node, preserved)
        advice = _ADVICE.get(node.target, "register it with torch.library, or replace it in the model")
        raise VerificationError(
            f"{describe(node)} is not an operator of the edge dialect and torch has no decomposition for it; "
            f"{_COMPLEX_ADVICE if _is_complex(node) else advice}"
        )
    if "val" not in node.meta:
        raise VerificationError(f"{describe(node)} has no val: the pass that made it must compute one")
    for val in _tensors(node.meta["val"]):
        if val.dtype not in DTYPE_LETTERS:
            raise VerificationError(f"{describe(node)} gives {val.dtype}, which the runtime does not have")
        if dim_order(val) is None:
            raise VerificationError(
                f"{describe(node)} gives a tensor of shape {tuple(val.shape)} with strides {tuple(val.stride())}; "
                "the edge dialect has dense tensors in the default or the channels-last dim order"
            )
    if isinstance(node.target, OpOverload):
        finding = dtype_finding(node.target, vals(node.args), vals(node.kwargs), node.meta["val"])
        if finding is not None:
            _verify_complex_readers(node, preserved)
            advice = f"; {_COMPLEX_ADVICE}" if _is_complex(node) else ""
            raise VerificationError(f"{describe(node)} {finding} (dtype rule of {node.target}){advice}")


def _verify_complex_readers(node: Node, preserved: Collection[OpOverload]) -> None:
    """Verify the readers of a refused call that returns complex numbers.

    Complex calls that real arithmetic can express are already replaced. This call remains because one of its readers
    could not be replaced, so the error names that reader.
    """
    if any(val.is_complex() for val in _tensors(node.meta.get("val"))):
        for reader in node.users:
            if reader.op == "call_function" and reader.target is not operator.getitem:
                _verify_call(reader, preserved)


def _is_complex(node: Node) -> bool:
    """Return True if the operands or the result of a call are complex numbers."""
    tensors = [
        *_tensors(node.meta.get("val")),
        *(val for read in node.all_input_nodes for val in _tensors(read.meta.get("val"))),
    ]
    return any(val.is_complex() for val in tensors)


def _verify_attribute(graph_module: GraphModule, node: Node) -> None:
    value = getattr(graph_module, str(node.target), None)
    if not isinstance(value, torch.nn.Module):
        raise VerificationError(f"the get_attr node {node.name} reads {node.target}: make constants placeholders")


def _tensors(val: Any) -> list[torch.Tensor]:
    if isinstance(val, torch.Tensor):
        return [val]
    return [item for item in val if isinstance(item, torch.Tensor)] if isinstance(val, (tuple, list)) else []
