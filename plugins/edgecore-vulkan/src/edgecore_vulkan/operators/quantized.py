"""Quantize and dequantize nodes; the pass `passes/quantize.py` fuses them with the operators between them."""

from __future__ import annotations

from typing import Any

import torch
import torch.ao.quantization.fx._decomposed  # registers the operators
from torch.fx import Node

from edgecore.sdk import arguments_by_name, parameters_of
from edgecore_vulkan.calls import TensorValue
from edgecore_vulkan.operators.builder import FLOAT, Builder, Query, Row

library = torch.ops.quantized_decomposed

INT8 = (-128, 127)


def _convert(b: Builder, node: Node) -> TensorValue | None:
    """Write (input, scale, zero point, minimum, maximum, dtype), and for dequantize the dtype of the result.

    A dequantize node of constants needs no call: its readers read the integers, or the numbers.
    """
    args = arguments_by_name(node)
    if b.constant_of(args["input"]) is not None:
        return None
    output: TensorValue = b.call(_name(node), b.arguments(node), b.result(node))
    return output


def _name(node: Node) -> str:
    """Return the name of a node's operator in the registry."""
    name = str(node.target)
    return name if name.count(".") == 2 else f"{name}.default"


def _choose(b: Builder, node: Node) -> list[TensorValue]:
    """Write the call that chooses a scale and a zero point, which the delegate holds as float32 and int32."""
    results = [b.result(node, index) for index in range(2)]
    outputs = [
        TensorValue(value.shape, dtype) for value, dtype in zip(results, (torch.float32, torch.int32), strict=True)
    ]
    b.call(_name(node), b.arguments(node), outputs)
    return outputs


def _check(query: Query) -> str | None:
    """Return why the delegate does not support a quantize or dequantize node, or None."""
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
        spec.name for spec in target._schema.arguments if spec.name.startswith(("scale", "zero_point"))
    )  # fmt: skip
    dtypes = (*FLOAT, torch.int8) if lower is _convert else (*FLOAT, torch.float64, torch.int64)
    return Row(target, dtypes, constraints, check, False, lower, any_dtype)


ROWS = [
    *(_row(target, _check) for target in (
        library.quantize_per_tensor.default, library.dequantize_per_tensor.default,
        library.quantize_per_tensor.tensor, library.dequantize_per_tensor.tensor,
        library.quantize_per_token.default, library.dequantize_per_token.default)),
    _row(library.dequantize_per_channel.default, _check, "constants of int8"),
    _row(library.dequantize_per_channel_group.default, _check_group, "constants of int8"),
    *(_row(target, _check_choose, lower=_choose) for target in (
        library.choose_qparams.tensor, library.choose_qparams_per_token_asymmetric.default)),
]  # fmt: skip
