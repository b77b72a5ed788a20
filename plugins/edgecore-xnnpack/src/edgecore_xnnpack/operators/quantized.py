"""Quantize and dequantize nodes. What lies between two of them becomes a quantized operation in `quantize.py`."""

from __future__ import annotations

import torch
import torch.ao.quantization.fx._decomposed  # registers the operators
from torch.fx import Node

from edgecore.passes.quantized import is_dequantize, parameters_of
from edgecore.passes.rewrites import argument
from edgecore_xnnpack.lowering import Lowering, quantization_of
from edgecore_xnnpack.net import RoundRows, Value
from edgecore_xnnpack.operators.matmul import ROUNDED
from edgecore_xnnpack.operators.table import Query, lowers, row_refusal
from edgecore_xnnpack.schema import graph as g

library = torch.ops.quantized_decomposed
aten = torch.ops.aten


def _check(query: Query) -> str | None:
    parameters = parameters_of(query.node)
    assert parameters is not None
    if query.is_constant(query.node):
        return None  # integers with zero points other than 0 are folded into floats
    if not parameters.is_per_tensor:
        return "scales of a tensor that is not constant"
    if parameters.dtype != torch.int8 or (parameters.quant_min, parameters.quant_max) != (-128, 127):
        return f"{parameters.dtype} from {parameters.quant_min} to {parameters.quant_max}"
    return None


def _check_grouped(query: Query) -> str | None:
    zeros = argument(query.node, "zero_points")
    if not query.is_constant(query.node):
        return "scales of a tensor that is not constant"
    return "zero points of a weight" if zeros is not None and query.constant(zeros).any() else None


@lowers(library.quantize_per_tensor.default, check=_check, constraints="int8", dtypes=(torch.float32, torch.int8))
def _quantize(low: Lowering, node: Node) -> Value:
    return low.emit(g.Convert, [low.input()], low.shape, quantization=quantization_of(node))


@lowers(library.dequantize_per_tensor.default, library.dequantize_per_channel.default, check=_check,
        constraints="int8 values; constants of any", dtypes=(torch.float32, torch.int8))  # fmt: skip
def _dequantize(low: Lowering, node: Node) -> Value:
    return low.emit(g.Convert, [low.input()], low.shape)


@lowers(library.dequantize_per_channel_group.default, check=_check_grouped, constraints="weights with zero points of 0",
        dtypes=(torch.float32, torch.int8))  # fmt: skip
def _dequantize_groups(low: Lowering, node: Node) -> Value:
    raise AssertionError("a constant is folded")


_CHOOSE = (library.choose_qparams.tensor, library.choose_qparams_per_token_asymmetric.default)
_QUANTIZE = (library.quantize_per_tensor.tensor, library.quantize_per_token.default)
AT_RUN_TIME = frozenset((*_CHOOSE, *_QUANTIZE, *ROUNDED))
"""The three nodes that round a tensor at run time."""


def _check_dynamic(query: Query) -> str | None:
    """The three nodes that round a tensor at run time are taken together, for linear layers of integer weights."""
    node = query.node
    limits = [argument(node, arg.name) for arg in node.target._schema.arguments if arg.name.startswith("quant_")]  # type: ignore[union-attr]
    if argument(node, "dtype") != torch.int8 or limits not in ([-128, 127], []):
        return "dynamic quantization to something else than int8"
    ends = [node]
    if node.target in _CHOOSE:
        ends = [user for item in node.users for user in item.users]
    ends = [user for end in ends for user in (end.users if end.target in _QUANTIZE else [end])]
    ends = [end for end in ends if end.op == "call_function"]
    if not ends or not all(end.target in ROUNDED and _rounds(end, query) for end in ends):
        return "dynamic quantization for an operator outside"
    return None


def _rounds(end: Node, query: Query) -> bool:
    """Whether all that reads a rounded value are linear layers that XNNPACK has."""
    for user in end.users:
        if user.target is not aten.linear.default or user.args[0] is not end:
            return False
        weight = user.args[1]
        if not isinstance(weight, Node) or not is_dequantize(weight) or not query.is_constant(weight):
            return False
        if any(row_refusal(query.about(one)) is not None for one in (weight, user)):
            return False
    return True


@lowers(*_CHOOSE, *_QUANTIZE, *ROUNDED, check=_check_dynamic, constraints="int8, for linear layers of integer weights",
        dtypes=(torch.float32, torch.int8, torch.float64, torch.int64))  # fmt: skip
def _dynamic(low: Lowering, node: Node) -> Value | list[None]:
    """The parameters stay unread: XNNPACK finds those of each row itself."""
    if node.target in _CHOOSE:
        return [None, None]
    value = low.input()
    return value if node.target in _QUANTIZE else low.emit(RoundRows, [value], value.shape)
