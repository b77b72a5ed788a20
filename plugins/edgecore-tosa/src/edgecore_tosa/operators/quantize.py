"""Quantize and dequantize nodes, which give integers their meaning."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.ao.quantization.fx._decomposed  # registers the operators

from edgecore.sdk import NodeQuery
from edgecore_tosa.builder import Builder, Value
from edgecore_tosa.operators.table import INTEGER, Query, Row
from edgecore_tosa.quantization import Quantization

library = torch.ops.quantized_decomposed


def _parameters(b: Builder) -> Quantization:
    assert b.node is not None
    found = b.parameters.of_node(b.node)
    assert found is not None
    return found


def _dequantize(b: Builder) -> Value:
    """The integers with their meaning; no operator is needed."""
    return replace(b.input("input"), quantization=_parameters(b))


def _quantize(b: Builder) -> Value:
    """The integers of a value that has them already, converted if it has others."""
    return replace(b.convert(b.input("input"), _parameters(b)), quantization=None)


def _known(query: NodeQuery) -> str | None:
    assert isinstance(query, Query)
    if query.parameters.of_node(query.node) is None:
        return "its scale or zero point is not known when compiling, or differs by channel"
    return None


def _known_and_quantized(query: NodeQuery) -> str | None:
    assert isinstance(query, Query)
    if query.parameters.of(query.argument("input")) is None:
        return "its input is not the result of an operator on integers"
    return _known(query)


ROWS = (
    Row(library.dequantize_per_tensor.default, (torch.float32, *INTEGER), "constant scale", _known, False, _dequantize),
    Row(library.dequantize_per_channel.default, (torch.float32, *INTEGER), "constant scales, zero points 0", _known, False,
        _dequantize, ("scales", "zero_points")),
    Row(library.quantize_per_tensor.default, (torch.float32, *INTEGER), "of a quantized operator", _known_and_quantized,
        False, _quantize),
)  # fmt: skip
