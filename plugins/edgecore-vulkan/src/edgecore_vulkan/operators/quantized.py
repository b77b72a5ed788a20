"""Lower quantize and dequantize nodes to calls; `passes/quantize.py` fuses these with the operators between them."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from edgecore.sdk import arguments_by_name, parameters_of, shape
from edgecore.sdk.torch_compat import quantized_operators, schema_of
from edgecore_vulkan.graph.calls import TensorValue
from edgecore_vulkan.operators.builder import FLOAT, Builder, Query, Row, is_static

library = quantized_operators()

INT8 = (-128, 127)


def _convert(b: Builder, node: Node) -> TensorValue | None:
    """Emit a quantize or dequantize node as a call (input, scale, zero point, minimum, maximum, dtype, ...).

    A node that dequantizes constants needs no call, because its readers use the integers or the dequantized constant.
    """
    args = arguments_by_name(node)
    if b.constant_of(args["input"]) is not None:
        return None
    output: TensorValue = b.call(_name(node), b.arguments(node), b.result(node))
    return output


def _convert_all(b: Builder, node: Node) -> TensorValue:
    """Emit a quantize or dequantize node with one computed scale as per-row quantization of a single row.

    The tensor is flattened to this row. The integers keep this shape, because only dequantize nodes read them.
    """
    args = arguments_by_name(node)
    x, output = b.value(args["input"]), b.result(node)
    if output.dtype == torch.int8:
        rows = (1, output.elements)
        flat = b.view(x, rows, None if is_static(node) else (1, -1))
        name, result = "quantize_per_token", TensorValue(rows, torch.int8)
    else:
        flat = x if len(x.shape) == 2 and x.shape[0] == 1 else TensorValue((1, x.elements), x.dtype)
        name, result = "dequantize_per_token", TensorValue(flat.shape, output.dtype)
    b.call(f"quantized_decomposed.{name}.default", b.arguments(node, input=flat), result)
    if output.dtype == torch.int8:
        return result
    sizes = [size if isinstance(size, int) else -1 for size in shape(node)]
    return b.view(result, output.shape, sizes)


def _check_all(query: Query) -> str | None:
    """Return why a quantize or dequantize node with a computed scale is not supported, or None if it is."""
    node = query.node
    if reason := _check(query):
        return reason
    if sum(not isinstance(size, int) for size in shape(node)) > 1:
        return "several symbolic sizes"
    if node.target is library.quantize_per_tensor.tensor:
        ends = [user for user in node.users if user.target is not library.dequantize_per_tensor.tensor]
        return "integers that another operator reads" if ends else None
    begin: Any = node.args[0]
    return None if begin.target is library.quantize_per_tensor.tensor else "integers of another operator"


def _name(node: Node) -> str:
    """Return the registry's name of a node's operator; the name always ends in an overload, such as ".default"."""
    name = str(node.target)
    return name if name.count(".") == 2 else f"{name}.default"


def _choose(b: Builder, node: Node) -> list[TensorValue]:
    """Emit the call that computes a scale and zero point, which the delegate stores as float32 and int32."""
    results = [b.result(node, index) for index in range(2)]
    outputs = [
        TensorValue(value.shape, dtype) for value, dtype in zip(results, (torch.float32, torch.int32), strict=True)
    ]
    b.call(_name(node), b.arguments(node), outputs)
    return outputs


def _check(query: Query) -> str | None:
    """Return why the delegate does not support a quantize or dequantize node, or None if it does."""
    args = arguments_by_name(query.node)
    if query.is_constant(args["input"]):
        return None if query.is_constant(query.node) else "constants with a scale that is computed"
    parameters = parameters_of(query.node)
    if parameters is not None and parameters.axis is not None:
        return "a scale for each channel of a tensor that is computed"
    limits = (args["quant_min"], args["quant_max"])
    if args["dtype"] != torch.int8 or limits != INT8:
        return f"{args['dtype']} from {limits[0]} to {limits[1]}"
    return None


def _check_group(query: Query) -> str | None:
    return None if query.is_constant(query.node) else "a scale for each group of a tensor that is computed"


def _check_choose(query: Query) -> str | None:
    args = arguments_by_name(query.node)
    limits = (args.get("quant_min", INT8[0]), args.get("quant_max", INT8[1]))
    if args["dtype"] != torch.int8 or limits != INT8:
        return f"{args['dtype']} from {limits[0]} to {limits[1]}"
    return None


def _row(target: Any, check: Any, constraints: str = "int8", lower: Any = _convert) -> Row:
    any_dtype = tuple(
        spec.name for spec in schema_of(target).arguments if spec.name.startswith(("scale", "zero_point"))
    )
    dtypes = (*FLOAT, torch.int8) if lower is not _choose else (*FLOAT, torch.float64, torch.int64)
    return Row(target, dtypes, constraints, check, False, lower, any_dtype)


ROWS = [
    *(_row(target, _check) for target in (
        library.quantize_per_tensor.default, library.dequantize_per_tensor.default,
        library.quantize_per_token.default, library.dequantize_per_token.default)),
    *(_row(target, _check_all, "int8; one symbolic size", _convert_all) for target in (
        library.quantize_per_tensor.tensor, library.dequantize_per_tensor.tensor)),
    _row(library.dequantize_per_channel.default, _check, "constants of int8"),
    _row(library.dequantize_per_channel_group.default, _check_group, "constants of int8"),
    *(_row(target, _check_choose, lower=_choose) for target in (
        library.choose_qparams.tensor, library.choose_qparams_per_token_asymmetric.default)),
]  # fmt: skip
