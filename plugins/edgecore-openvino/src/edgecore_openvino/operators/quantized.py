"""Lower quantize and dequantize operators to OpenVINO.

OpenVINO computes a float operator with an integer kernel if it lies between dequantize and quantize operators.

The formulas follow `quantize_per_tensor` in `torch.ao.quantization.fx._decomposed`, and OpenVINO's FakeQuantize-1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from openvino import opset15 as ops
from torch.fx import Node

from edgecore.sdk import NodeQuery, arguments_by_name, rank
from edgecore.sdk.torch_compat import quantized_operators
from edgecore_openvino.operators.builder import FLOATS, Builder, Row, ints, number
from edgecore_openvino.operators.integer_weights import dequantized

_LEVELS = {torch.int8: (-128, 127, "i8"), torch.uint8: (0, 255, "u8")}
_DTYPES = (*FLOATS, torch.int8, torch.uint8)


def _quantize(b: Builder, node: Node) -> Any:
    """Round with FakeQuantize in floating point, then convert to integers: OpenVINO recognizes this pattern."""
    args = arguments_by_name(node)
    low, high, scale, zero = (args[key] for key in ("quant_min", "quant_max", "scale", "zero_point"))
    ends = [number((end - zero) * scale) for end in (low, high)]
    shift = _shift(node)
    levels = ops.fake_quantize(b.value(node.args[0]), *ends, number(low + shift), number(high + shift), high - low + 1)
    return ops.convert(levels, "u8" if shift else _LEVELS[args["dtype"]][2])


def _shift(node: Any) -> int:
    """Return the number that is added to a node's integers inside the delegate: 128 for int8, which becomes uint8.

    The represented values do not change, because the zero point is shifted, too. If a convolution reads a concatenation
    that is quantized to int8, OpenVINO 2026.4 computes wrong results: for a 1x1 and a 3x3 convolution, the error was as
    large as the result. With uint8 the results are correct. Integers that leave the delegate are not shifted.
    """
    is_int8 = isinstance(node, Node) and node.target is quantized.quantize_per_tensor.default
    if not is_int8 or arguments_by_name(node)["dtype"] != torch.int8:
        return 0
    return 128 if all(user.target is quantized.dequantize_per_tensor.default for user in node.users) else 0


def _range(query: NodeQuery) -> str | None:
    dtype, lower, upper = (query.argument(name) for name in ("dtype", "quant_min", "quant_max"))
    if dtype not in _LEVELS:
        return f"quantized dtype {dtype}"
    low, high, _ = _LEVELS[dtype]
    if lower < low or upper > high or upper - lower < 2:
        return f"a quantized range from {lower} to {upper}"
    return None


def _dequantize(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    zero = args["zero_point"] + _shift(node.args[0])
    return _scaled(b.value(node.args[0]), np.float32(zero), np.float32(args["scale"]))


def _dequantize_channels(b: Builder, node: Node) -> Any:
    args, source = arguments_by_name(node), node.args[0]
    sizes = [1] * rank(source)
    sizes[args["axis"]] = -1
    scales = _parameter(b, args["scales"]).astype(np.float32).reshape(sizes)
    zeros = None if args["zero_points"] is None else _parameter(b, args["zero_points"]).reshape(sizes)
    if isinstance(source, Node) and source in b.partition.constants:
        return dequantized(_parameter(b, source), scales, zeros, bits=_bits(args))
    return _scaled(b.value(source), np.float32(0 if zeros is None else zeros), scales)


def _dequantize_groups(b: Builder, node: Node) -> Any:
    """Dequantize a constant matrix [rows, width] with a scale per group of elements of a row."""
    args = arguments_by_name(node)
    integers, scales = _parameter(b, args["input"]), _parameter(b, args["scales"]).astype(np.float32)
    zeros = None if args["zero_points"] is None else _parameter(b, args["zero_points"])
    rows, groups = scales.shape
    grouped = integers.reshape(rows, groups, -1)
    by_group = (rows, groups, 1)
    value = dequantized(
        grouped, scales.reshape(by_group), None if zeros is None else zeros.reshape(by_group), bits=_bits(args)
    )
    return ops.reshape(value, ints(integers.shape), special_zero=False)


def _parameter(b: Builder, node: Node) -> np.ndarray:
    tensor = b.partition.constants[node]
    return (tensor.float() if tensor.is_floating_point() else tensor).contiguous().numpy()


def _bits(args: dict[str, Any]) -> int:
    return 4 if args["quant_max"] - args["quant_min"] < 16 else 8


def _scaled(value: Any, zero: Any, scale: Any) -> Any:
    value = ops.convert(value, "f32")
    if np.any(zero):
        value = ops.subtract(value, ops.constant(zero))
    return ops.multiply(value, ops.constant(scale))


def _constant_weight(query: NodeQuery) -> str | None:
    if any(source.op != "placeholder" for source in query.node.all_input_nodes):
        return "weights, scales or zero points that are computed at run time"
    zeros = query.argument("zero_points")
    if zeros is not None and zeros.meta["val"].is_floating_point():
        return "zero points that are no integers"
    return None


def _constant_scales(query: NodeQuery) -> str | None:
    parameters = query.nodes_of(("scales", "zero_points"))
    return (
        None
        if all(source.op == "placeholder" for source in parameters)
        else "scales or zero points that are computed at run time"
    )


quantized = quantized_operators()
ROWS = [
    Row(quantized.quantize_per_tensor.default, _DTYPES, "int8 or uint8", _range, lower=_quantize),
    Row(quantized.dequantize_per_tensor.default, _DTYPES, "int8 or uint8", lower=_dequantize),
    Row(
        quantized.dequantize_per_channel.default,
        (*_DTYPES, torch.float64, torch.int32, torch.int64),
        "int8 or uint8; constant scales",
        _constant_scales,
        lower=_dequantize_channels,
    ),
    Row(
        quantized.dequantize_per_channel_group.default,
        (*_DTYPES, torch.float64, torch.int32, torch.int64, torch.bfloat16),
        "int8 or uint8; constant weights",
        _constant_weight,
        lower=_dequantize_groups,
    ),
]
