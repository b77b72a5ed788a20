"""Merge equal calls."""

from __future__ import annotations

import operator
from collections.abc import Hashable
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from edgecore.ir.control_flow import graph_modules
from edgecore.ir.dialect.edge_operators import SYMBOLIC
from edgecore.ir.graph import calls, edit, replace
from edgecore.ir.torch_compat import OpOverload, schema_of
from edgecore.passes.quantized import is_dequantize


def merge_common_subexpressions(program: ExportedProgram) -> ExportedProgram:
    """Replace a call by an earlier call with the same operator and arguments.

    Some calls are not merged: random operators, calls that read or return a value that an in-place operator writes, and
    dequantizations of weights, because each dequantization must become part of the partition that reads it.
    """
    with edit(program) as graph_module:
        for part in graph_modules(graph_module):
            _merge(part)
    return program


def _merge(graph_module: GraphModule) -> None:
    nodes = calls(graph_module)
    written = {node.args[0] for node in nodes if _is_mutable(node)}
    seen: dict[Hashable, Node] = {}
    for node in nodes:
        if not _is_pure(node) or node in written or not written.isdisjoint(node.all_input_nodes):
            continue
        key = (node.target, _frozen(node.args), _frozen(node.kwargs))
        first = seen.setdefault(key, node)
        if first is not node:
            replace(node, first)


def _is_mutable(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and schema_of(node.target).is_mutable


def _is_pure(node: Node) -> bool:
    if not isinstance(node.target, OpOverload):
        return node.target is operator.getitem or node.target in SYMBOLIC
    if is_dequantize(node) and all(source.op == "placeholder" for source in node.all_input_nodes):
        return False
    return not schema_of(node.target).is_mutable and torch.Tag.nondeterministic_seeded not in node.target.tags


def _frozen(value: Any) -> Hashable:
    """Convert arguments to a hashable key: 1, 1.0 and True have different keys, as do 0.0 and -0.0."""
    if isinstance(value, Node):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(item) for item in value)
    if isinstance(value, dict):
        return tuple((key, _frozen(item)) for key, item in sorted(value.items()))
    return type(value), repr(value)
