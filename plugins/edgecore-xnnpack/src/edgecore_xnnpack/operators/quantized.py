"""Lower quantize and dequantize nodes; the pass `passes/quantize.py` computes operations between them in integers."""

from __future__ import annotations

import torch
from torch.fx import Node

from edgecore.sdk import argument, is_dequantize, parameters_of
from edgecore.sdk.torch_compat import quantized_operators, schema_of
from edgecore_xnnpack.graph.lower import Lowering, quantization_of
from edgecore_xnnpack.graph.subgraph import QuantizePerToken, SubgraphValue
from edgecore_xnnpack.operator_table import TABLE, Query, lowers
from edgecore_xnnpack.operators.convolution import has_scales_of_outputs
from edgecore_xnnpack.operators.matmul import DYNAMIC_DEQUANTIZE
from edgecore_xnnpack.schema import graph as g

library = quantized_operators()
aten = torch.ops.aten


def _check(query: Query) -> str | None:
    """Return why XNNPACK does not support a per-tensor or per-channel quantize or dequantize node."""
    parameters = parameters_of(query.node)
    assert parameters is not None
    if query.is_constant(query.node):
        return None  # accept a weight with any scheme: if XNNPACK cannot store integers, it gets float32 numbers
    if not parameters.is_per_tensor:
        return "a scale per channel of a tensor that is not constant"
    if parameters.dtype != torch.int8 or (parameters.quant_min, parameters.quant_max) != (-128, 127):
        return f"{parameters.dtype} from {parameters.quant_min} to {parameters.quant_max}"
    return None


def _check_grouped(query: Query) -> str | None:
    zeros = argument(query.node, "zero_points")
    if not query.is_constant(query.node):
        return "a scale per group of a tensor that is not constant"
    return "a weight with zero points" if zeros is not None and query.constant(zeros).any() else None


@lowers(library.quantize_per_tensor.default, check=_check, constraints="int8", dtypes=(torch.float32, torch.int8))
def _quantize(low: Lowering, node: Node) -> SubgraphValue:
    return low.emit(g.Convert, [low.input()], low.shape, quantization=quantization_of(node))


@lowers(library.dequantize_per_tensor.default, library.dequantize_per_channel.default, check=_check,
        constraints="int8; constants of any integer type", dtypes=(torch.float32, torch.int8))  # fmt: skip
def _dequantize(low: Lowering, node: Node) -> SubgraphValue:
    return low.emit(g.Convert, [low.input()], low.shape)


@lowers(library.dequantize_per_channel_group.default, check=_check_grouped, constraints="weights with zero points of 0",
        dtypes=(torch.float32, torch.int8))  # fmt: skip
def _dequantize_groups(low: Lowering, node: Node) -> SubgraphValue:
    raise AssertionError("only constants pass the check, and constants are folded")


_CHOOSE = (library.choose_qparams.tensor, library.choose_qparams_per_token_asymmetric.default)
_QUANTIZE = (library.quantize_per_tensor.tensor, library.quantize_per_token.default)
DYNAMIC_QUANTIZATION = frozenset((*_CHOOSE, *_QUANTIZE, *DYNAMIC_DEQUANTIZE))
"""Operators of dynamic quantization: choose parameters, quantize, dequantize."""


def _check_dynamic(query: Query) -> str | None:
    """Return why a node of dynamic quantization is not supported.

    XNNPACK quantizes at run time only within a linear layer or convolution with an integer weight. So the graph must
    contain the whole chain (choose parameters, quantize, dequantize), and only such layers may read its result.
    """
    node = query.node
    arguments = schema_of(node.target).arguments
    limits = [argument(node, arg.name) for arg in arguments if arg.name.startswith("quant_")]
    if argument(node, "dtype") != torch.int8 or limits not in ([-128, 127], []):
        return "dynamic quantization to another type than int8"
    ends = [node]  # set below to the dequantize nodes that use the result of `node`
    if node.target in _CHOOSE:
        ends = [user for item in node.users for user in item.users]
    ends = [user for end in ends for user in (end.users if end.target in _QUANTIZE else [end])]
    ends = [end for end in ends if end.op == "call_function"]
    if not ends or not all(end.target in DYNAMIC_DEQUANTIZE and _feeds_layers(end, query) for end in ends):
        return "dynamic quantization for an operator that is no delegated linear layer or convolution"
    return None


def _feeds_layers(dequantize: Node, query: Query) -> bool:
    """Return True if all readers of a dequantize node are layers with integer weights that XNNPACK supports."""
    for user in dequantize.users:
        if not (user.target is aten.linear.default or _is_convolution(user)) or user.args[0] is not dequantize:
            return False
        weight = user.args[1]
        if not isinstance(weight, Node) or not is_dequantize(weight) or not query.is_constant(weight):
            return False
        if TABLE.row_reason(query.about(weight)) is not None or TABLE.own_reason(query.about(user)) is not None:
            return False
    return True


def _is_convolution(node: Node) -> bool:
    """Return True if a convolution is 1-d or 2-d, is not depthwise, and reads an input with one scale per image."""
    if node.target is not aten.convolution.default or node.meta["val"].dim() not in (3, 4):
        return False
    has_groups = not argument(node, "transposed") and argument(node, "groups") > 1
    is_depthwise = has_groups and argument(node, "weight").meta["val"].shape[1] == 1
    is_per_image = argument(node, "input").target is library.dequantize_per_tensor.tensor
    return is_per_image and not is_depthwise and has_scales_of_outputs(node)


@lowers(
    *_CHOOSE,
    *_QUANTIZE,
    *DYNAMIC_DEQUANTIZE,
    check=_check_dynamic,
    constraints="int8, for linear layers and convolutions of integer weights",
    dtypes=(torch.float32, torch.float16, torch.int8, torch.float64, torch.int64),
)
def _dynamic(low: Lowering, node: Node) -> SubgraphValue | list[None]:
    """Emit `QuantizePerToken` for the dequantize node of a dynamic quantization; the nodes before it emit nothing.

    XNNPACK itself computes the parameters of each row or image, so the node that chooses them becomes nothing.
    """
    if node.target in _CHOOSE:
        return [None, None]
    value = low.input()
    return value if node.target in _QUANTIZE else low.emit(QuantizePerToken, [value], value.shape)
