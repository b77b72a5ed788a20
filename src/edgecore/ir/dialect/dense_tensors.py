"""Refuse exported programs with sparse, nested and other tensors that are not dense, which no runtime supports."""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node

from edgecore.errors import CompileError
from edgecore.ir.control_flow import graph_modules
from edgecore.ir.graph import describe
from edgecore.ir.torch_compat import pytree


def check_dense(program: ExportedProgram) -> None:
    """Check that all inputs, weights and operator results of a program are dense tensors.

    Raises:
        CompileError: A tensor is not dense; the message names the first one.
    """
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    for part in graph_modules(program.graph_module):
        for node in part.graph.nodes:
            layout = _other_layout(node)
            if layout is None:
                continue
            advice = "convert it by to_dense() before compiling"
            if node.op != "placeholder":
                subject, advice = f"the result of {describe(node)}", "compute with dense tensors in the model"
            elif specs[node.name].kind == InputKind.USER_INPUT:
                subject, advice = f"the input {node.name}", "pass dense tensors to the model"
            else:
                subject = f"the weight {specs[node.name].target}"
            raise CompileError(f"{subject} has the layout {layout}; edgecore has dense tensors only: {advice}")


def _other_layout(node: Node) -> torch.layout | None:
    tensors = [value for value in pytree.tree_leaves(node.meta.get("val")) if isinstance(value, torch.Tensor)]
    return next((value.layout for value in tensors if value.layout != torch.strided), None)
