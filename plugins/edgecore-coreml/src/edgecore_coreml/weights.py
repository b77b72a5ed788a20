"""The precision in which an ML program stores each weight."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_SUFFIXES = re.compile(r"(_palettized|_quantized|_to_fp16|_cast_fp16|_dequantized|_integers|_qdata|_codes)+$")
"""Suffixes by which coremltools, torchao and this package rename a weight."""


def plain_name(name: str) -> str:
    """Return the name of a weight without the suffixes of its stored forms."""
    return _SUFFIXES.sub("", name)


def stored_weights(function: Any) -> dict[str, list[str]]:
    """Return precision -> the weights with it: constants with two or more dims in the file of the weights.

    Args:
        function: A function of an ML program, a protobuf message of coremltools.
    """
    from coremltools.proto import MIL_pb2

    dtypes = MIL_pb2.DataType
    operations = [op for block in function.block_specializations.values() for op in block.operations]
    types = {output.name: output.type.tensorType for op in operations for output in op.outputs}
    parts = {
        argument.name
        for op in operations
        if op.type.startswith("constexpr_")
        for value in op.inputs.values()
        for argument in value.arguments
    }
    weights: dict[str, list[str]] = {}
    for op in operations:
        name = op.outputs[0].name if op.outputs else ""
        if op.type == "constexpr_lut_to_dense":
            precision = _palette(_type(op, "lut", types), types[name])
        elif op.type.startswith("constexpr_"):
            data = _type(op, "data" if "data" in op.inputs else "quantized_data", types)
            precision = dtypes.Name(data.dataType).lower()
        elif op.type == "const" and _is_large(op) and len(types[name].dimensions) > 1 and name not in parts:
            precision = dtypes.Name(types[name].dataType).lower()
        else:
            continue
        weights.setdefault(precision, []).append(plain_name(name))
    return weights


def _is_large(op: Any) -> bool:
    """Return True if the value of a constant is in the file of the weights."""
    return bool(op.attributes["val"].WhichOneof("value") == "blobFileValue")


def _type(op: Any, name: str, types: Mapping[str, Any]) -> Any:
    """Return the type of an argument, which is an attribute before iOS 18."""
    if name in op.attributes:
        return op.attributes[name].type.tensorType
    argument = op.inputs[name].arguments[0]
    return argument.value.type.tensorType if argument.WhichOneof("binding") == "value" else types[argument.name]


def _palette(table: Any, weight: Any) -> str:
    sizes, first = [[dim.constant.size for dim in part.dimensions] for part in (table, weight)]
    values = sizes[-2] if len(sizes) > 1 else sizes[0]
    text = f"indices of {values.bit_length() - 1} bits"
    if len(sizes) == 1 or sizes[0] == 1:
        return f"{text} into a table"
    return f"{text} into a table for each {first[0] // sizes[0]} rows"
