"""Make inputs, weights and buffers contiguous if their strides match no dim order, such as transposed weights."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputSpec
from torch.fx import Node

from edgecore.ir.dialect.dim_orders import dim_order
from edgecore.ir.graph import dense
from edgecore.ir.torch_compat import free_unbacked_symbols


def lay_out_inputs(program: ExportedProgram, mode: Any) -> set[Node]:
    """Make inputs, weights and buffers contiguous if their strides match no dim order; return their nodes."""
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    changed = set()
    for spec in program.graph_signature.input_specs:
        node = nodes[spec.arg.name]
        val = node.meta.get("val")
        if not isinstance(val, torch.Tensor) or free_unbacked_symbols(val) or dim_order(val) is not None:
            continue
        lay_out_constant(program, spec)
        with mode:
            node.meta["val"] = dense(val)
        changed.add(node)
    return changed


def lay_out_constant(program: ExportedProgram, spec: InputSpec) -> None:
    """Make the stored tensor of an input spec, if any, contiguous. The `val` of the input's node does not change."""
    for tensors in (program.state_dict, program.constants):
        tensor = tensors.get(spec.target)
        if isinstance(tensor, torch.Tensor) and not tensor.is_contiguous():
            content = tensor.detach().contiguous()
            is_parameter = isinstance(tensor, torch.nn.Parameter)
            tensors[spec.target] = torch.nn.Parameter(content, tensor.requires_grad) if is_parameter else content
