"""Lower quantize and dequantize operators to ONNX's QuantizeLinear and DequantizeLinear.

The provider computes an operator with integers if it lies between a DequantizeLinear and a QuantizeLinear node.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from edgecore.sdk import NodeQuery, arguments_by_name
from edgecore.sdk.torch_compat import quantized_operators
from edgecore_qnn.operators.builder import Builder, Row, Scale

quantized = quantized_operators()
_BOUNDS = {
    torch.uint8: (0, 255), torch.int8: (-128, 127), torch.uint16: (0, 65535), torch.int16: (-32768, 32767),
}  # fmt: skip
_DTYPES = (torch.float32, *_BOUNDS, torch.int32)
BLOCKS = quantized.dequantize_per_channel_group.default
_WORDS = "uint8, int8, uint16 or int16"


def onnx_dtype(dtype: torch.dtype, low: int, high: int) -> str | None:
    """Return the name of the ONNX type for integers with this dtype and range; None if ONNX has none.

    ExecuTorch's quantizer for QNN stores uint16 as int32 with the range of uint16.
    """
    if dtype == torch.int32 and (low, high) == _BOUNDS[torch.uint16]:
        return "uint16"
    return str(dtype).removeprefix("torch.") if dtype in _BOUNDS else None


def scale_of(node: Any) -> Scale | None:
    """Return the quantization parameters of a per-tensor quantize or dequantize node; None for another node."""
    if not isinstance(node, Node) or node.target not in (
        quantized.quantize_per_tensor.default,
        quantized.dequantize_per_tensor.default,
    ):
        return None
    args = arguments_by_name(node)
    low, high = args["quant_min"], args["quant_max"]
    dtype = onnx_dtype(args["dtype"], low, high)
    return None if dtype is None else Scale(float(args["scale"]), int(args["zero_point"]), dtype, low, high)


CLAMPS = {
    torch.ops.aten.relu.default: (0.0, math.inf), torch.ops.aten.relu6.default: (0.0, 6.0),
    torch.ops.aten.hardtanh.default: (-1.0, 1.0), torch.ops.aten.clamp.default: (None, None),
}  # fmt: skip
"""Operators that limit their result, with the default limits."""


_OWN_SCALES = {
    torch.ops.aten.sigmoid.default: (2.0**-16, 0),
    torch.ops.aten.hardsigmoid.default: (2.0**-16, 0),
    torch.ops.aten.tanh.default: (2.0**-15, 2**15),
}
"""Scale and zero point (relative to the minimum integer) that the provider forces for these 16-bit results."""


def limits(node: Node) -> tuple[float, float]:
    """Return the smallest and largest result of a clamp, such as relu or hardtanh (`CLAMPS`)."""
    args, (low, high) = arguments_by_name(node), CLAMPS[node.target]  # type: ignore[index]
    low = args.get("min", args.get("min_val", low))
    high = args.get("max", args.get("max_val", high))
    return -math.inf if low is None else float(low), math.inf if high is None else float(high)


def result_scale(node: Node) -> Scale | None:
    """Return the quantization of a node's result; None unless all its readers quantize the result in the same way.

    A clamp between the node and a quantize node is ignored if it changes no representable value (see `is_free`).
    """
    clamps = []
    while len(node.users) == 1 and (user := next(iter(node.users))).target in CLAMPS:
        clamps.append(user)
        node = user
    scales = {scale_of(user) if _is_quantize(user) else None for user in node.users}
    scale = scales.pop() if len(scales) == 1 else None
    return scale if all(_keeps(clamp, scale) for clamp in clamps) else None


def is_free(node: Node) -> bool:
    """Return True for a clamp without effect: its limits lie beyond all values that its quantized result represents.

    Limits may also lie up to half a step inside the range of these values, because the largest integer represents a
    rounded number. In a program with weights that have a scale per block, no clamp is free: the NPU computes such
    layers in fp16 without rounding their input to integers, so the integer range does not limit it.
    """
    return _keeps(node, result_scale(node))


def _keeps(clamp: Node, scale: Scale | None) -> bool:
    """Return True if a clamp changes no value that `scale` can represent."""
    if scale is None or clamp.graph.find_nodes(op="call_function", target=BLOCKS, sort=False):
        return False
    if own_scale(clamp, scale) is not None:
        return False
    low, high = limits(clamp)
    return scale.range[0] >= low - scale.scale / 2 and scale.range[1] <= high + scale.scale / 2


def own_scale(clamp: Node, scale: Scale) -> Scale | None:
    """Return the scale that the provider forces on the operator before one or more clamps; None if it forces none.

    The result of such an operator may exceed the integer range of the model's scale, even if it is quantized
    afterwards.
    """
    source = clamp.args[0]
    while isinstance(source, Node) and (source.target in CLAMPS or scale_of(source) is not None):
        source = source.args[0]
    target = source.target if isinstance(source, Node) else None
    if target not in _OWN_SCALES or scale.dtype not in ("uint16", "int16"):
        return None
    step, zero_point = _OWN_SCALES[target]
    return Scale(step, scale.low + zero_point, scale.dtype, scale.low, scale.high)


def _is_quantize(node: Node) -> bool:
    return node.target is quantized.quantize_per_tensor.default


def _quantize(b: Builder, node: Node) -> Any:
    scale = scale_of(node)
    assert scale is not None
    value = b.value(node.args[0])
    bounds = np.iinfo(scale.dtype)
    if (scale.low, scale.high) != (bounds.min, bounds.max):
        value = b.add("Clip", value, *(b.array(end, np.float32) for end in scale.range))
    return b.quantize(value, scale)


def _dequantize(b: Builder, node: Node) -> Any:
    scale, source = scale_of(node), node.args[0]
    assert scale is not None
    if source not in b.partition.constants:
        return b.dequantize(b.value(source), scale)
    integers = b.partition.constants[source].numpy()  # type: ignore[index]
    return b.dequantize(b.array(integers, scale.dtype), scale)


def _dequantize_channels(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    constants = b.partition.constants
    integers = constants[args["input"]].contiguous().numpy()
    scales = constants[args["scales"]].numpy().astype(np.float32)
    zeros = np.zeros(scales.shape) if args["zero_points"] is None else constants[args["zero_points"]].numpy()
    low, high = args["quant_min"], args["quant_max"]
    weight, zero = (b.weight(numbers, low, high) for numbers in (integers, zeros.astype(integers.dtype)))
    return b.add("DequantizeLinear", weight, b.array(scales), zero, axis=args["axis"])


def _dequantize_blocks(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    constants = b.partition.constants
    integers = constants[args["input"]].contiguous().numpy()
    scales = constants[args["scales"]].numpy().astype(np.float32)
    weight = b.weight(integers, args["quant_min"], args["quant_max"])
    zero = b.weight(np.zeros(scales.shape, integers.dtype), args["quant_min"], args["quant_max"])
    return b.add("DequantizeLinear", weight, b.array(scales), zero, axis=1, block_size=args["group_size"])


def _check_blocks(query: NodeQuery) -> str | None:
    if (reason := _constant_weight(query)) is not None:
        return reason
    zeros = query.argument("zero_points")
    return None if zeros is None or not query.constant(zeros).any() else "zero points other than 0"


def _known_integers(query: NodeQuery) -> str | None:
    dtype, low, high = (query.argument(name) for name in ("dtype", "quant_min", "quant_max"))
    if onnx_dtype(dtype, low, high) is None:
        return f"quantized dtype {str(dtype).removeprefix('torch.')}"
    # Compare with `>`, because this also rejects a scale that is NaN.
    return None if query.argument("scale") > 0 else "a scale that is not positive"


def _constant_weight(query: NodeQuery) -> str | None:
    names = ("input", "scales", "zero_points")
    is_constant = all(query.is_constant(source) for source in query.nodes_of(names))
    return None if is_constant else "integers, scales or zero points that are computed at run time"


ROWS = [
    Row(quantized.quantize_per_tensor.default, _DTYPES, _WORDS, _known_integers, lower=_quantize),
    Row(quantized.dequantize_per_tensor.default, _DTYPES, _WORDS, _known_integers, lower=_dequantize),
    Row(quantized.dequantize_per_channel.default, (torch.float32, torch.int8, torch.uint8, torch.float64, torch.int64),
        "constant int8 or uint8", _constant_weight, lower=_dequantize_channels),
    Row(BLOCKS, (torch.float32, torch.int8, torch.float64, torch.int64),
        "constant int8; zero points of 0", _check_blocks, lower=_dequantize_blocks),
]  # fmt: skip
