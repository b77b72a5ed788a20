"""Apply the options `configs` and `config_precisions`, and split partitions for `per_op_mode`."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.sdk import TAG, Constants, UnsupportedReason, calls, is_dequantize, is_quantize
from edgecore.sdk.torch_compat import OpOverload
from edgecore_xnnpack.operator_table import is_weight
from edgecore_xnnpack.operators import TABLE
from edgecore_xnnpack.operators.quantized import DYNAMIC_QUANTIZATION
from edgecore_xnnpack.options import Precision, XnnpackOptions

aten = torch.ops.aten
_LINEAR = (aten.linear.default, aten.addmm.default, aten.mm.default)


def filter_ops(supported: UnsupportedReason, program: ExportedProgram, options: XnnpackOptions) -> UnsupportedReason:
    """Return a check that accepts what `supported` and the options `configs` and `config_precisions` accept.

    A node that dequantizes a weight, or that quantizes a tensor at run time, is useless without the layers that read
    its result. The options allow such a node only if they allow these layers.
    """
    constants = Constants(program)

    def unsupported_reason(node: Node) -> str | None:
        reason = supported(node)
        if reason is not None:
            return reason
        if is_dequantize(node) and is_weight(node, constants):
            return "weight of an operator that is not delegated" if any(map(unsupported_reason, node.users)) else None
        if _is_dynamic(node):
            return next(filter(None, (_excluded(layer, constants, options) for layer in _layers(node))), None)
        return _excluded(node, constants, options)

    return unsupported_reason


def _excluded(node: Node, constants: Constants, options: XnnpackOptions) -> str | None:
    """Return a sentence that names the option which excludes an fx node; None if the options allow the node."""
    precision = _precision(node, constants, options)
    if precision not in options.config_precisions:
        return f"{precision} is not among config_precisions"
    if not options.configs or is_quantize(node) or is_dequantize(node):
        return None
    names, excludes = TABLE.rows[node.target].names, options.configs[0].startswith("-")
    is_named = any(name.removeprefix("-") in names for name in options.configs)
    if is_named == excludes:
        return "excluded by the option configs"
    return None


def nothing_matches(program: ExportedProgram, options: XnnpackOptions) -> str:
    """Return a warning if the option `configs` names only operators that a program does not call, else ""."""
    named = {name.removeprefix("-") for name in options.configs}
    called = {name for node in calls(program.graph_module) for name in _names_of(node)}
    if not named or named & called:
        return ""
    effect = "excludes nothing" if options.configs[0].startswith("-") else "lets XNNPACK run nothing"
    return f"the option configs {effect}: the model calls no {' or '.join(sorted(named))} after lowering"


def _names_of(node: Node) -> tuple[str, ...]:
    row = TABLE.rows.get(node.target) if isinstance(node.target, OpOverload) else None
    return () if row is None else row.names


def _precision(node: Node, constants: Constants, options: XnnpackOptions) -> Precision:
    """Return the precision of an fx node, as one of the names that the option `config_precisions` takes."""
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
    """Return True for a node of dynamic quantization: choose parameters (and its `getitem`s), quantize, dequantize."""
    if node.target is operator.getitem:
        node = node.args[0]  # type: ignore[assignment]
    return isinstance(node.target, OpOverload) and node.target in DYNAMIC_QUANTIZATION


def _layers(node: Node) -> list[Node]:
    """List the layers that read a dynamically quantized tensor; `node` is one of the nodes that quantize it."""
    layers: list[Node] = []
    for user in node.users:
        layers += _layers(user) if _is_dynamic(user) else [user] if user.op == "call_function" else []
    return layers


def weights_of_float_layers(program: ExportedProgram, options: XnnpackOptions) -> frozenset[str]:
    """Return the names of weights and biases that delegated float32 linear layers read without a dequantize node."""
    constants = Constants(program)
    names = set[str]()
    for node in calls(program.graph_module, *_LINEAR):
        read = [source for source in node.all_input_nodes if constants.has(source)]
        if TAG in node.meta and not any(map(is_dequantize, node.all_input_nodes)):
            names |= {source.name for source in read if _precision(node, constants, options) == "FP32"}
    return frozenset(names)


def delegate_per_op(nodes: Sequence[Node], program: ExportedProgram) -> dict[Node, list[Node]]:
    """Divide `nodes` into delegates of one operator each; map each node to the first nodes of its delegates.

    Some nodes share the delegate of an operator: the `getitem` nodes of its results, the dequantize nodes of its
    weights, a dequantize node that only this operator reads, and a quantize node that is the only reader of its result.
    The nodes that quantize a tensor at run time belong to the delegate of each layer that reads this tensor.
    """
    constants, tagged = Constants(program), set(nodes)
    layers = {node: [layer for layer in _layers(node) if layer in tagged] for node in nodes if _is_dynamic(node)}
    first: dict[Node, Node] = {node: node for node in nodes if node not in layers}

    def join(node: Node, other: Node) -> None:
        """Merge the delegates of two nodes."""
        old, new = sorted((first[node], first[other]), key=order.__getitem__, reverse=True)
        for member, leader in first.items():
            if leader is old:
                first[member] = new

    order = {node: index for index, node in enumerate(nodes)}
    for node in first:
        for source in tagged.difference(layers).intersection(node.all_input_nodes):
            has_one_user = len(source.users) == 1
            is_layer_weight = is_dequantize(source) and is_weight(source, constants)
            converts = has_one_user and (is_quantize(node) or is_dequantize(source)) and not is_quantize(source)
            if node.target is operator.getitem or is_layer_weight or converts:
                join(node, source)
    return {node: list(dict.fromkeys(first[member] for member in layers.get(node, [node]))) for node in nodes}
