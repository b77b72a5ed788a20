"""Quantize and dequantize nodes. What lies between two of them becomes a quantized operation in `quantize.py`."""

from __future__ import annotations

import torch
import torch.ao.quantization.fx._decomposed  # registers the operators
from torch.fx import Node

from edgecore.passes.quantized import parameters_of
from edgecore_xnnpack.lowering import Lowering, quantization_of
from edgecore_xnnpack.net import Value
from edgecore_xnnpack.operators.table import Query, lowers
from edgecore_xnnpack.schema import graph as g

library = torch.ops.quantized_decomposed


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


@lowers(library.quantize_per_tensor.default, check=_check, constraints="int8", quantizes=True)
def _quantize(low: Lowering, node: Node) -> Value:
    return low.emit(g.Convert, [low.input()], low.shape, quantization=quantization_of(node))


@lowers(library.dequantize_per_tensor.default, library.dequantize_per_channel.default, check=_check, quantizes=True,
        constraints="int8 values; weights with zero points of 0")  # fmt: skip
def _dequantize(low: Lowering, node: Node) -> Value:
    return low.emit(g.Convert, [low.input()], low.shape)
