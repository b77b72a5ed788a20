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

from edgecore_openvino.operators.builder import Builder, Row, arguments, number, rank

_LEVELS = {torch.int8: (-128, 127, "i8"), torch.uint8: (0, 255, "u8")}
_DTYPES = (torch.float32, torch.int8, torch.uint8)


def _quantize(b: Builder, node: Node) -> Any:
    """Values that lie on the levels first, then as integers: the form that OpenVINO's integer kernels are made from."""
    given = arguments(node)
    low, high, scale, zero = (given[key] for key in ("quant_min", "quant_max", "scale", "zero_point"))
    ends = [number((end - zero) * scale) for end in (low, high)]
    levels = ops.fake_quantize(b.value(node.args[0]), *ends, number(low), number(high), high - low + 1)
    return ops.convert(levels, _LEVELS[given["dtype"]][2])


def _range(node: Node) -> str | None:
    given = arguments(node)
    if given["dtype"] not in _LEVELS:
        return f"integers of {given['dtype']}"
    low, high, _ = _LEVELS[given["dtype"]]
    if given["quant_min"] < low or given["quant_max"] > high or given["quant_max"] - given["quant_min"] < 2:
        return f"a range from {given['quant_min']} to {given['quant_max']}"
    return None


def _dequantize(b: Builder, node: Node) -> Any:
    given = arguments(node)
    return _scaled(b.value(node.args[0]), np.float32(given["zero_point"]), np.float32(given["scale"]))


def _dequantize_channels(b: Builder, node: Node) -> Any:
    given, source = arguments(node), node.args[0]
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


def _constant_scales(node: Node) -> str | None:
    given = arguments(node)
    found = [given[key] for key in ("scales", "zero_points") if given[key] is not None]
    return None if all(source.op == "placeholder" for source in found) else "scales that are computed"


quantized = torch.ops.quantized_decomposed
ROWS = [
    Row(quantized.quantize_per_tensor.default, _DTYPES, "int8 or uint8", _range, build=_quantize),
    Row(quantized.dequantize_per_tensor.default, _DTYPES, "of int8 or uint8", build=_dequantize),
    Row(
        quantized.dequantize_per_channel.default,
        (*_DTYPES, torch.float64, torch.int32, torch.int64),
        "of int8 or uint8; constant scales",
        _constant_scales,
        build=_dequantize_channels,
    ),
]
