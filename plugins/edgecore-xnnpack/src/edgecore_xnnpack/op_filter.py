"""Restrict what XNNPACK supports to what the options allow, and make delegates of one operator each."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.sdk import Constants, UnsupportedReason, is_dequantize, is_quantize
from edgecore_xnnpack.operators import TABLE
from edgecore_xnnpack.operators.quantized import DYNAMIC_QUANTIZATION
from edgecore_xnnpack.operators.table import is_weight
from edgecore_xnnpack.options import Precision, XnnpackOptions


def filter_ops(supported: UnsupportedReason, program: ExportedProgram, options: XnnpackOptions) -> UnsupportedReason:
    """Return `supported`, restricted by the options `configs` and `config_precisions`.

    A dequantized weight, or a node of dynamic quantization, is allowed exactly where the layers that read it are.
    """
    constants = Constants(program)

    def unsupported_reason(node: Node) -> str | None:
        reason = supported(node)
        if reason is not None:
            return reason
        if is_dequantize(node) and is_weight(node, constants):
            return "weight of an operator outside" if any(map(unsupported_reason, node.users)) else None
        if _is_dynamic(node):
            return next(filter(None, (_excluded(layer, constants, options) for layer in _layers(node))), None)
        return _excluded(node, constants, options)

    return unsupported_reason


def _excluded(node: Node, constants: Constants, options: XnnpackOptions) -> str | None:
    """Say which option excludes a call; None if none does."""
    precision = _precision(node, constants, options)
    if precision not in options.config_precisions:
        return f"{precision} is not among config_precisions"
    if not options.configs or is_quantize(node) or is_dequantize(node):
        return None
    names, excludes = TABLE.rows[node.target].names, options.configs[0].startswith("-")
    is_named = any(name.removeprefix("-") in names for name in options.configs)
    if is_named == excludes:
        return "configs leaves it out"
    return None


def _precision(node: Node, constants: Constants, options: XnnpackOptions) -> Precision:
    if any(map(_is_dynamic, node.all_input_nodes)):
        return "DYNAMIC_QUANT"
    conversions = [
        source for source in (node, *node.all_input_nodes) if is_dequantize(source) and not is_weight(source, constants)
    ]
    conversions += [user for user in (node, *node.users) if is_quantize(user) and not _is_dynamic(user)]
    if conversions:
        return "STATIC_QUANT"
    val = node.meta["val"]
    first = val[0] if isinstance(val, (tuple, list)) else val
    return "FP16" if options.force_fp16 or first.dtype == torch.float16 else "FP32"


def _is_dynamic(node: Node) -> bool:
    """Return True for the nodes that quantize a tensor at run time, and the items of the first of them."""
    if node.target is operator.getitem:
        node = node.args[0]  # type: ignore[assignment]
    return isinstance(node.target, OpOverload) and node.target in DYNAMIC_QUANTIZATION


def _layers(node: Node) -> list[Node]:
    """List the layers that read the tensor that `node` helps to quantize."""
    layers: list[Node] = []
    for user in node.users:
        layers += _layers(user) if _is_dynamic(user) else [user] if user.op == "call_function" else []
    return layers


def delegate_per_op(nodes: Sequence[Node], program: ExportedProgram) -> dict[Node, Node]:
    """Map each of `nodes` to the first node of its delegate, in the order of `nodes`.

    An operator's delegate also has its items, its weights, the conversions that nothing else reads and, if it reads
    values that are quantized at run time, their quantization with all its readers.
    """
    constants, inside = Constants(program), set(nodes)
    first: dict[Node, Node] = {node: node for node in nodes}

    def join(node: Node, other: Node) -> None:
        old, new = sorted((first[node], first[other]), key=order.__getitem__, reverse=True)
        for member in nodes:
            if first[member] is old:
                first[member] = new

    order = {node: index for index, node in enumerate(nodes)}
    for node in nodes:
        for source in inside.intersection(node.all_input_nodes):
            is_alone = len(source.users) == 1
            weight = is_dequantize(source) and is_weight(source, constants)
            converts = is_alone and (is_quantize(node) or is_dequantize(source)) and not is_quantize(source)
            if node.target is operator.getitem or weight or _is_dynamic(source) or converts:
                join(node, source)
    return first
