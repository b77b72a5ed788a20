"""Quantize and dequantize nodes. What lies between two of them becomes a quantized operation in `quantize.py`."""

from __future__ import annotations

import torch
import torch.ao.quantization.fx._decomposed  # registers the operators
from torch.fx import Node

from edgecore.passes.quantized import is_dequantize, parameters_of
from edgecore.passes.rewrites import argument
from edgecore_xnnpack.lowering import Lowering, quantization_of
from edgecore_xnnpack.net import RoundRows, Value
from edgecore_xnnpack.operators.table import Query, lowers
from edgecore_xnnpack.schema import graph as g

library = torch.ops.quantized_decomposed
aten = torch.ops.aten


def _check(query: Query) -> str | None:
    parameters = parameters_of(query.node)
    assert parameters is not None
    if query.is_constant(query.node):
        given = parameters.zero_point
        zeros = query.constant(given) if isinstance(given, Node) else torch.tensor(given or 0)
        return "zero points of a weight" if zeros.any() else None
    if not parameters.is_per_tensor:
        return "scales of a tensor that is not constant"
    if parameters.dtype != torch.int8 or (parameters.quant_min, parameters.quant_max) != (-128, 127):
        return f"{parameters.dtype} from {parameters.quant_min} to {parameters.quant_max}"
    return None


@lowers(library.quantize_per_tensor.default, check=_check, constraints="int8", dtypes=(torch.float32, torch.int8))
def _quantize(low: Lowering, node: Node) -> Value:
    return low.emit(g.Convert, [low.input()], low.shape, quantization=quantization_of(node))


@lowers(library.dequantize_per_tensor.default, library.dequantize_per_channel.default, check=_check,
        constraints="int8 values; weights with zero points of 0", dtypes=(torch.float32, torch.int8))  # fmt: skip
def _dequantize(low: Lowering, node: Node) -> Value:
    return low.emit(g.Convert, [low.input()], low.shape)


def _check_dynamic(query: Query) -> str | None:
    """The three nodes that round a tensor at run time are taken together, for linear layers of int8 weights."""
    node = query.node
    if argument(node, "dtype") != torch.int8 or (argument(node, "quant_min"), argument(node, "quant_max")) != (
        -128,
        127,
    ):
        return "dynamic quantization to something else than int8"
    if node.target is library.dequantize_per_tensor.tensor:
        return (
            None
            if all(_rounds(user, node, query) for user in node.users)
            else "dynamic quantization for another operator"
        )
    following = [user for user in node.users if user.op == "call_function"]
    if node.target is library.choose_qparams.tensor:
        following = [user for item in following for user in item.users]
    ends = [user for user in following if user.target is library.dequantize_per_tensor.tensor]
    if not ends or not all(_rounds(user, end, query) for end in ends for user in end.users):
        return "dynamic quantization for another operator"
    return None


def _rounds(user: Node, value: Node, query: Query) -> bool:
    if user.target is not aten.linear.default or user.args[0] is not value:
        return False
    weight = user.args[1]
    return is_dequantize(weight) and query.is_constant(weight)


_DYNAMIC = (
    library.choose_qparams.tensor, library.quantize_per_tensor.tensor, library.dequantize_per_tensor.tensor
)  # fmt: skip


@lowers(*_DYNAMIC, check=_check_dynamic, constraints="int8, for linear layers of int8 weights",
        dtypes=(torch.float32, torch.int8, torch.float64, torch.int64))  # fmt: skip
def _dynamic(low: Lowering, node: Node) -> Value | list[None]:
    """The parameters stay unread: XNNPACK finds those of each row itself."""
    if node.target is library.choose_qparams.tensor:
        return [None, None]
    value = low.input()
    return value if node.target is library.quantize_per_tensor.tensor else low.emit(RoundRows, [value], value.shape)
