"""Lower convolutions, matmuls, pooling, norms and softmax to ONNX."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from edgecore.sdk import Constraint, NodeQuery, arguments_by_name, axes, for_each, rank, reaches_past_padding, shape
from edgecore_qnn.operators.builder import Build, Builder, Row, Scale
from edgecore_qnn.operators.quantized import BLOCKS, quantized, result_scale, scale_of

aten = torch.ops.aten
F32 = (torch.float32,)
_BIAS = np.iinfo(np.int32)
_MATRIX = 2
# `_has_wrong_channels` refuses depthwise convolutions whose number of channels exceeds a multiple of _BLOCK by 1 to
# _WRONG.
_BLOCK, _WRONG = 32, 4


def _convolution(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    count = rank(node) - 2
    stride, pads, dilation = (for_each(args[key], count) for key in ("stride", "padding", "dilation"))
    attributes = {"strides": stride, "pads": [*pads, *pads], "dilations": dilation, "group": args["groups"]}
    if args["transposed"]:
        attributes["output_padding"] = for_each(args["output_padding"], count)
    operands = [b.value(args["input"]), b.value(args["weight"])]
    channels = shape(node)[1]
    operands += _bias(b, args, operands[0], channels)
    return b.add("ConvTranspose" if args["transposed"] else "Conv", *operands, **attributes)


def _bias(b: Builder, args: dict[str, Any], value: str, channels: int) -> list[str]:
    """Return the bias operand of a layer as a list, empty if the layer has no bias.

    The provider adds an int32 bias to integer products, so the scale of the bias is the product of the scales of input
    and weight. If the weight has a scale per block, the largest scale of each channel is used.
    """
    bias, weight = args["bias"], args["weight"]
    if bias is None:
        return []
    scale = b.scales.get(value)
    if bias not in b.partition.constants or scale is None or not _is_dequantize(weight):
        return [b.value(bias)]
    weight_args = arguments_by_name(weight)
    if weight.target is quantized.dequantize_per_tensor.default:
        factors = np.full(1, weight_args["scale"], np.float32)
    else:
        factors = b.partition.constants[weight_args["scales"]].numpy().astype(np.float32)
    factors = factors.max(1) if factors.ndim > 1 else factors
    scales = (factors * np.float32(scale.scale)).astype(np.float32)
    numbers = b.partition.constants[bias].numpy()
    # Raise scales that are too small: the integers of the bias must fit into 32 bits.
    scales = np.maximum(scales, np.float32(np.abs(numbers).max() / _BIAS.max))
    integers = np.clip(np.rint(numbers / scales.astype(np.float64)), _BIAS.min, _BIAS.max).astype(np.int32)
    if len(scales) == 1:
        step = Scale(float(scales[0]), 0, "int32", int(_BIAS.min), int(_BIAS.max))
        return [b.dequantize(b.array(integers), step)]
    zeros = b.array(np.zeros(channels), np.int32)
    return [b.add("DequantizeLinear", b.array(integers), b.array(scales), zeros, axis=0)]


_DEQUANTIZE = (
    quantized.dequantize_per_tensor.default,
    quantized.dequantize_per_channel.default,
    BLOCKS,
)


def _is_dequantize(node: Any) -> bool:
    return isinstance(node, Node) and node.target in _DEQUANTIZE


def _check_convolution(query: NodeQuery) -> str | None:
    count = rank(query.node) - 2
    if not 1 <= count <= 3:
        return f"{count} spatial dims"
    if _has_wrong_channels(query.node):
        return (
            "a depthwise convolution of 8 bits with kernel 1x1 or 2x2, stride 2 and a multiple of 32 plus 1 to 4 "
            "channels: onnxruntime-qnn 2.7.0 computes these 1 to 4 channels wrongly"
        )
    return _constant_operands(query, "weight", "bias")


def _has_wrong_channels(node: Node) -> bool:
    """Return True for a convolution whose last 1 to 4 channels QNN's emulator computes incorrectly.

    These channels were off by 4 to 78 quantization steps for SM8550, SM8650 and SM8750 (HTP V73, V75, V79) with all
    tested image sizes and paddings. They were correct for SM8350 and SM8450 (V68, V69), and for other strides, channel
    counts, dtypes and kernels (but for an image of one pixel, the provider reduces a 3x3 kernel to 1x1).
    """
    args = arguments_by_name(node)
    scale, kernel = scale_of(args["input"]), shape(args["weight"])
    channels = shape(args["input"])[1]
    return (
        scale is not None
        and scale.dtype in ("uint8", "int8")
        and not args["transposed"]
        and args["groups"] == channels == kernel[0] > 1
        and kernel[2:] in ((1, 1), (2, 2))
        and for_each(args["stride"], 2) == [2, 2]
        and 1 <= channels % _BLOCK <= _WRONG
    )


def _constant_operands(query: NodeQuery, *names: str) -> str | None:
    """Refuse an fx node if an operand in `names` is neither a constant nor a dequantized constant."""
    for node in query.nodes_of(names):
        source = node.args[0] if _is_dequantize(node) else node
        if not query.is_constant(source):
            return f"{node.name} is computed at run time"
    return None


def _linear(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    value, weight = b.value(args["input"]), b.value(args["weight"])
    operands = [weight, *_bias(b, args, value, shape(node)[-1])]
    if rank(node) == _MATRIX:
        return b.add("Gemm", value, *operands, transB=1)
    scale = b.scales.get(value)
    value = b.add("Reshape", value, b.ints([-1, shape(args["input"])[-1]]))
    if scale is not None:
        value = b.requantize(value, scale)
    value = b.add("Gemm", value, *operands, transB=1)
    result = result_scale(node)
    if result is not None:
        value = b.requantize(value, result)
    return b.add("Reshape", value, b.ints(shape(node)))


def _check_linear(query: NodeQuery) -> str | None:
    if shape(query.argument("weight"))[1] == 1:
        return "one input feature: onnxruntime-qnn 2.7.0 never answers for such a layer"
    return _constant_operands(query, "weight", "bias")


def _addmm(b: Builder, node: Node) -> Any:
    bias, left, right = (b.value(source) for source in node.args[:3])
    return b.add("Add", b.add("MatMul", left, right), bias)


def _check_addmm(query: NodeQuery) -> str | None:
    return None if query.argument("alpha") == query.argument("beta") == 1 else "alpha or beta is not 1"


def _matmul(b: Builder, node: Node) -> Any:
    left, right = node.args[:2]
    first = b.value(left)
    return b.add("MatMul", first, b.value(right, first))


def _max_pool(b: Builder, node: Node) -> Any:
    return [_max_pool_without_indices(b, node)]


def _max_pool_without_indices(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    kernel = for_each(args["kernel_size"], 2)
    pads = for_each(args["padding"], 2)
    return b.add(
        "MaxPool", b.value(node.args[0]), kernel_shape=kernel, strides=for_each(args["stride"] or kernel, 2),
        pads=[*pads, *pads], dilations=for_each(args["dilation"], 2), ceil_mode=int(args["ceil_mode"]),
    )  # fmt: skip


def _avg_pool(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    kernel = for_each(args["kernel_size"], 2)
    pads = for_each(args["padding"], 2)
    return b.add(
        "AveragePool", b.value(node.args[0]), kernel_shape=kernel, strides=for_each(args["stride"] or kernel, 2),
        pads=[*pads, *pads], ceil_mode=int(args["ceil_mode"]), count_include_pad=int(args["count_include_pad"]),
    )  # fmt: skip


def _check_avg_pool(query: NodeQuery) -> str | None:
    if query.argument("divisor_override") is not None:
        return "divisor_override is not supported"
    if reaches_past_padding(query.node):
        return "ceil_mode, and windows that reach past the padding: onnxruntime-qnn 2.7.0 computes them wrongly"
    return _image(query)


def _check_max_pool(query: NodeQuery) -> str | None:
    dtype = query.argument("self").meta["val"].dtype
    return _only_first(query) or _image(query) or (None if dtype == torch.float32 else "an image of integers")


def _image(query: NodeQuery) -> str | None:
    source: Any = query.node.args[0]
    return None if rank(source) == 4 else f"{rank(source)} dims instead of 4"


def _only_first(query: NodeQuery) -> str | None:
    """Refuse an fx node if any result except the first is read, because only the first is computed."""
    for user in query.node.users:
        if user.args[1] != 0 and user.users:
            return f"result {user.args[1]} is read, but only result 0 is supported"
    return None


def _layer_norm(b: Builder, node: Node) -> Any:
    return [_only_layer_norm(b, node)]


def _only_layer_norm(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    sizes = args["normalized_shape"]
    value = b.value(args["input"])
    if args["weight"] is not None:
        weight = b.value(args["weight"], value)
    elif value in b.scales:
        weight = b.quantized_constant(np.ones(sizes, np.float32), b.scales[value].dtype)
    else:
        weight = b.array(np.ones(sizes), np.float32)
    bias = [] if args["bias"] is None else [b.value(args["bias"], value)]
    result = b.add("LayerNormalization", value, weight, *bias, axis=-len(sizes), epsilon=float(args["eps"]))
    return _limited(b, node, result)


def _limited(b: Builder, node: Node, value: str) -> str:
    """Clip the 16-bit result of a norm to its integer range, which changes no value.

    Without the Clip, onnxruntime-qnn 2.7.0 computes wrong results of a matmul that reads a layer norm of 16 rows: the
    error is 1.4 times the largest correct result, for SM8450, SM8550, SM8650 and SM8750. Results are correct with all
    other tested row counts (4 to 64) and with 8-bit integers. They are also correct for additions, convolutions,
    softmax and norms that read a norm.
    """
    readers = [user for user in node.users if user.target is operator.getitem] or [node]
    scale = result_scale(readers[0])
    if scale is None or scale.dtype not in ("uint16", "int16"):
        return value
    ends = (b.array(end, np.float32) for end in scale.range)
    limited: str = b.add("Clip", b.requantize(value, scale), *ends)
    return limited


def _group_norm(b: Builder, node: Node) -> Any:
    """Lower a group norm: normalize the groups with InstanceNormalization, then scale and shift each channel."""
    args = arguments_by_name(node)
    groups, sizes = args["group"], shape(node.args[0])
    value = b.add("Reshape", b.value(node.args[0]), b.ints([sizes[0], groups, -1]))
    ones, zeros = b.array(np.ones(groups), np.float32), b.array(np.zeros(groups), np.float32)
    value = b.add("InstanceNormalization", value, ones, zeros, epsilon=float(args["eps"]))
    value = b.add("Reshape", value, b.ints(sizes))
    for name, op_type in (("weight", "Mul"), ("bias", "Add")):
        if args[name] is not None:
            factor = b.add("Reshape", b.value(args[name]), b.ints([1, -1] + [1] * (len(sizes) - 2)))
            value = b.add(op_type, value, factor)
    return [value]


def _batch_norm(b: Builder, node: Node) -> Any:
    args = arguments_by_name(node)
    channels = shape(node.args[0])[1]
    scale, shift = (
        b.array(np.full(channels, neutral), np.float32) if args[name] is None else b.value(args[name])
        for name, neutral in (("weight", 1.0), ("bias", 0.0))
    )
    statistics = b.value(args["running_mean"]), b.value(args["running_var"])
    return [b.add("BatchNormalization", b.value(node.args[0]), scale, shift, *statistics, epsilon=float(args["eps"]))]


def _constant_norm(query: NodeQuery) -> str | None:
    return _only_first(query) or _constant_operands(query, "weight", "bias")


def _constant_only_norm(query: NodeQuery) -> str | None:
    return _constant_operands(query, "weight", "bias")


def _softmax(b: Builder, node: Node) -> Any:
    source, dim = node.args[:2]
    return b.add("Softmax", b.value(source), axis=dim % rank(source))  # type: ignore[operator]


def _log_softmax(b: Builder, node: Node) -> Any:
    """Return x - log(sum(exp(x))) after subtracting the maximum: the NPU's own operator has errors of 5% in fp16."""
    args, source = arguments_by_name(node), node.args[0]
    value, dims = b.value(source), axes([args["dim"]], source)
    if value in b.scales:
        return b.add("LogSoftmax", value, axis=dims[0])
    value = b.add("Sub", value, b.add("ReduceMax", value, b.ints(dims), keepdims=1))
    total = b.add("ReduceSum", b.add("Exp", value), b.ints(dims), keepdims=1)
    return b.add("Sub", value, b.add("Log", total))


def _has_dims(query: NodeQuery) -> str | None:
    return None if rank(query.node.args[0]) else "a tensor without dims"


def _adaptive(b: Builder, node: Node) -> Any:
    source: Any = node.args[0]
    sizes, results = shape(source)[2:], shape(node)[2:]
    kernel = [size // result for size, result in zip(sizes, results, strict=True)]
    return b.add("AveragePool", b.value(source), kernel_shape=kernel, strides=kernel)


def _check_adaptive(query: NodeQuery) -> str | None:
    source: Any = query.node.args[0]
    if reason := _image(query):
        return reason
    pairs = zip(shape(source)[2:], shape(query.node)[2:], strict=True)
    return "sizes that are no multiple of the result's" if any(size % result for size, result in pairs) else None


def _row(
    target: Any,
    build: Build,
    constraints: str = "",
    check: Constraint | None = None,
    dtypes: tuple[torch.dtype, ...] = F32,
    do_not_decompose: bool = False,
) -> Row:
    return Row(target, dtypes, constraints, check, do_not_decompose, lower=build)


_POOL = "no divisor_override; windows end within the padding"
_FIRST = "only the first result may be read"
_MULTIPLES = "4 dims; sizes that are multiples of the result's"
_CONSTANT = "constant weight and bias"
ROWS = [
    _row(
        aten.convolution.default,
        _convolution,
        f"1 to 3 spatial dims; {_CONSTANT}",
        _check_convolution,
        do_not_decompose=True,
    ),
    _row(aten.linear.default, _linear, f"{_CONSTANT}; several input features", _check_linear, do_not_decompose=True),
    _row(aten.addmm.default, _addmm, "alpha and beta must be 1", _check_addmm),
    _row(aten.mm.default, _matmul),
    _row(aten.bmm.default, _matmul),
    _row(aten.matmul.default, _matmul, do_not_decompose=True),
    _row(aten.max_pool2d_with_indices.default, _max_pool, f"4 dims, float32; {_FIRST}", _check_max_pool,
         (torch.float32, torch.int64)),
    _row(aten.max_pool2d.default, _max_pool_without_indices, "4 dims", _image),
    _row(aten.avg_pool2d.default, _avg_pool, f"4 dims; {_POOL}", _check_avg_pool),
    _row(aten._adaptive_avg_pool2d.default, _adaptive, _MULTIPLES, _check_adaptive),
    _row(aten.adaptive_avg_pool2d.default, _adaptive, _MULTIPLES, _check_adaptive, do_not_decompose=True),
    _row(aten.native_layer_norm.default, _layer_norm, f"{_CONSTANT}; {_FIRST}", _constant_norm),
    _row(aten.layer_norm.default, _only_layer_norm, _CONSTANT, _constant_only_norm, do_not_decompose=True),
    _row(aten.native_group_norm.default, _group_norm, f"{_CONSTANT}; {_FIRST}", _constant_norm),
    _row(aten._native_batch_norm_legit_no_training.default, _batch_norm, f"{_CONSTANT}; {_FIRST}", _constant_norm),
    _row(aten._softmax.default, _softmax, check=_has_dims),
    _row(aten.softmax.int, _softmax, check=_has_dims, do_not_decompose=True),
    _row(aten.log_softmax.int, _log_softmax, check=_has_dims, do_not_decompose=True),
    _row(aten._log_softmax.default, _log_softmax, check=_has_dims),
]  # fmt: skip
