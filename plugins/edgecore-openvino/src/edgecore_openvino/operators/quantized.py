"""Conversions between floating point and 8-bit integers. OpenVINO computes what lies between them with integers.

Source of the formulas: `quantize_per_tensor` of `torch.ao.quantization.fx._decomposed`, and OpenVINO's FakeQuantize-1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators
from openvino import opset15 as ops
from torch.fx import Node

from edgecore.sdk import NodeQuery, arguments_by_name
from edgecore_openvino.operators.builder import Builder, Row, number, rank

_LEVELS = {torch.int8: (-128, 127, "i8"), torch.uint8: (0, 255, "u8")}
_DTYPES = (torch.float32, torch.int8, torch.uint8)


def _quantize(b: Builder, node: Node) -> Any:
    """Round to the levels in floating point, then convert: the pattern that OpenVINO makes integer kernels from."""
    given = arguments_by_name(node)
    low, high, scale, zero = (given[key] for key in ("quant_min", "quant_max", "scale", "zero_point"))
    ends = [number((end - zero) * scale) for end in (low, high)]
    levels = ops.fake_quantize(b.value(node.args[0]), *ends, number(low), number(high), high - low + 1)
    return ops.convert(levels, _LEVELS[given["dtype"]][2])


def _range(query: NodeQuery) -> str | None:
    dtype, lower, upper = (query.argument(name) for name in ("dtype", "quant_min", "quant_max"))
    if dtype not in _LEVELS:
        return f"integers of {dtype}"
    low, high, _ = _LEVELS[dtype]
    if lower < low or upper > high or upper - lower < 2:
        return f"a range from {lower} to {upper}"
    return None


def _dequantize(b: Builder, node: Node) -> Any:
    given = arguments_by_name(node)
    return _scaled(b.value(node.args[0]), np.float32(given["zero_point"]), np.float32(given["scale"]))


def _dequantize_channels(b: Builder, node: Node) -> Any:
    given, source = arguments_by_name(node), node.args[0]
    sizes = [1] * rank(source)
    sizes[given["axis"]] = -1
    scales = b.part.constants[given["scales"]].numpy().astype(np.float32).reshape(sizes)
    zeros = given["zero_points"]
    shifts = np.float32(0) if zeros is None else b.part.constants[zeros].numpy().astype(np.float32).reshape(sizes)
    return _scaled(b.value(source), shifts, scales)


def _scaled(value: Any, zero: Any, scale: Any) -> Any:
    value = ops.convert(value, "f32")
    if np.any(zero):
        value = ops.subtract(value, ops.constant(zero))
    return ops.multiply(value, ops.constant(scale))


def _constant_scales(query: NodeQuery) -> str | None:
    parameters = query.nodes_of(("scales", "zero_points"))
    return None if all(source.op == "placeholder" for source in parameters) else "scales that are computed"


quantized = torch.ops.quantized_decomposed
ROWS = [
    Row(quantized.quantize_per_tensor.default, _DTYPES, "int8 or uint8", _range, lower=_quantize),
    Row(quantized.dequantize_per_tensor.default, _DTYPES, "of int8 or uint8", lower=_dequantize),
    Row(
        quantized.dequantize_per_channel.default,
        (*_DTYPES, torch.float64, torch.int32, torch.int64),
        "of int8 or uint8; constant scales",
        _constant_scales,
        lower=_dequantize_channels,
    ),
]
