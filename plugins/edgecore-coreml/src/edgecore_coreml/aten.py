"""Rewrite a partition for coremltools, which reads programs of ATEN operators and knows views by their own names."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch._export.verifier import Verifier
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule

aten = torch.ops.aten

VIEWS: dict[Any, Any] = {
    aten.alias_copy.default: aten.clone.default,
    aten.detach_copy.default: aten.clone.default,
    aten.expand_copy.default: aten.expand.default,
    aten.permute_copy.default: aten.permute.default,
    aten.select_copy.int: aten.select.int,
    aten.slice_copy.Tensor: aten.slice.Tensor,
    aten.split_copy.Tensor: aten.split.Tensor,
    aten.split_with_sizes_copy.default: aten.split_with_sizes.default,
    aten.squeeze_copy.dim: aten.squeeze.dim,
    aten.squeeze_copy.dims: aten.squeeze.dims,
    aten.t_copy.default: aten.t.default,
    aten.transpose_copy.int: aten.transpose.int,
    aten.unbind_copy.int: aten.unbind.int,
    aten.unsqueeze_copy.default: aten.unsqueeze.default,
    aten.view_copy.default: aten.view.default,
}
"""Edge operators and the ATEN operators that coremltools converts in their place."""

_POOLS = (aten.max_pool2d.default, aten.max_pool2d_with_indices.default)
_HARDTANH = (-1.0, 1.0)

_NO_LAYOUT = {"memory_format", "layout", "device", "pin_memory", "non_blocking"}
"""Keywords of tensors in memory, which an ML program does not have."""


def to_aten(program: ExportedProgram) -> ExportedProgram:
    """Return a partition in the dialect "ATEN"; its tensors are shared, its graph is a copy."""
    graph, copies = Graph(), dict[Any, Any]()
    for node in program.graph.nodes:
        copies[node] = copied = graph.node_copy(node, copies.__getitem__)
        copied.meta = {"val": node.meta["val"]} if "val" in node.meta else {}
        if node.op == "call_function":
            copied.target = VIEWS.get(node.target, node.target)
            copied.args = _with_defaults(node.target, copied.args)
            copied.kwargs = {key: value for key, value in copied.kwargs.items() if key not in _NO_LAYOUT}
    converted = copy.copy(program)
    converted._graph_module = GraphModule({}, graph)
    converted._verifiers = [Verifier]
    return converted


def _with_defaults(target: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of a call, with the defaults that coremltools' converter of the operator does not know."""
    if target in _POOLS and (len(args) < 3 or not args[2]):
        return (*args[:2], args[1], *args[3:])  # the stride is the size of the kernel
    return (*args, *_HARDTANH[len(args) - 1 :]) if target is aten.hardtanh.default else args
