"""What the options leave of the nodes that XNNPACK could take, and delegates of one operator each."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.constants import Constants
from edgecore.passes.quantized import is_dequantize, is_quantize
from edgecore_xnnpack.operators.quantized import AT_RUN_TIME
from edgecore_xnnpack.operators.table import is_weight
from edgecore_xnnpack.options import Precision, XnnpackOptions, names_of

Check = Callable[[Node], "str | None"]


def filtered(check: Check, program: ExportedProgram, options: XnnpackOptions) -> Check:
    """`check`, and then what the options say. Conversions are where what reads or computes them is."""
    constants = Constants(program)

    def refusal(node: Node) -> str | None:
        reason = check(node)
        if reason is not None:
            return reason
        if is_dequantize(node) and is_weight(node, constants):
            return "weight of an operator outside" if any(map(refusal, node.users)) else None
        if _is_dynamic(node):
            return next(filter(None, (_excluded(end, constants, options) for end in _readers(node))), None)
        return _excluded(node, constants, options)

    return refusal


def _excluded(node: Node, constants: Constants, options: XnnpackOptions) -> str | None:
    precision = _precision(node, constants, options)
    if precision not in options.config_precisions:
        return f"{precision} is not among config_precisions"
    if not options.configs or is_quantize(node) or is_dequantize(node):
        return None
    assert isinstance(node.target, OpOverload)
    names, excludes = names_of(node.target), options.configs[0].startswith("-")
    is_named = any(name.removeprefix("-") in names for name in options.configs)
    if is_named == excludes:
        return "configs leaves it out"
    return None


def _precision(node: Node, constants: Constants, options: XnnpackOptions) -> Precision:
    if any(map(_is_dynamic, node.all_input_nodes)):
        return "DYNAMIC_QUANT"
    values = [one for one in (node, *node.all_input_nodes) if is_dequantize(one) and not is_weight(one, constants)]
    values += [one for one in (node, *node.users) if is_quantize(one) and not _is_dynamic(one)]
    if values:
        return "STATIC_QUANT"
    val = node.meta["val"]
    first = val[0] if isinstance(val, (tuple, list)) else val
    return "FP16" if options.force_fp16 or first.dtype == torch.float16 else "FP32"


def _is_dynamic(node: Node) -> bool:
    """Whether a node is one of the three that round a tensor at run time, or an item of the first."""
    if node.target is operator.getitem:
        node = node.args[0]  # type: ignore[assignment]
    return isinstance(node.target, OpOverload) and node.target in AT_RUN_TIME


def _readers(node: Node) -> list[Node]:
    """The layers that read what `node` helps to round."""
    found: list[Node] = []
    for user in node.users:
        found += _readers(user) if _is_dynamic(user) else [user] if user.op == "call_function" else []
    return found


def one_operator_each(nodes: Sequence[Node], program: ExportedProgram) -> dict[Node, Node]:
    """For each of `nodes`, in their order, the first node of its delegate.

    With an operator go its items, its weights, the conversions that nothing else reads, and, where it reads values that
    are rounded at run time, the rounding with all that reads it.
    """
    constants, inside = Constants(program), set(nodes)
    first: dict[Node, Node] = {node: node for node in nodes}

    def join(one: Node, other: Node) -> None:
        old, new = sorted((first[one], first[other]), key=order.__getitem__, reverse=True)
        for node in nodes:
            if first[node] is old:
                first[node] = new

    order = {node: index for index, node in enumerate(nodes)}
    for node in nodes:
        for source in inside.intersection(node.all_input_nodes):
            is_alone = len(source.users) == 1
            weight = is_dequantize(source) and is_weight(source, constants)
            converts = is_alone and (is_quantize(node) or is_dequantize(source)) and not is_quantize(source)
            if node.target is operator.getitem or weight or _is_dynamic(source) or converts:
                join(node, source)
    return first
