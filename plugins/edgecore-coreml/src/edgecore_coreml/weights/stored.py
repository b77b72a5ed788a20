"""Find the precision in which an ML program (Core ML's operator graph) stores each weight."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_SUFFIXES = re.compile(r"(_palettized|_quantized|_fused|_to_fp16|_cast_fp16|_dequantized|_integers|_qdata|_codes)+$")
"""Suffixes that coremltools, torchao and this package append to the name of a weight."""


@dataclass(frozen=True)
class StoredWeight:
    """A weight of an ML program, with its precision, and the outputs of the operators that read it."""

    name: str
    readers: Sequence[str]
    precision: str


def plain_name(name: str) -> str:
    """Return a weight's name without the suffixes that tools append, such as "_quantized"."""
    return _SUFFIXES.sub("", name)


def stored_weights(function: Any) -> list[StoredWeight]:
    """List the weights of a function: compressed constants, and constants of two or more dims in the weight file.

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
    readers: dict[str, list[str]] = {}
    for op in filter(lambda op: op.outputs, operations):
        for value in op.inputs.values():
            for argument in value.arguments:
                readers.setdefault(argument.name, []).append(op.outputs[0].name)
    weights: list[StoredWeight] = []
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
        weights.append(StoredWeight(name, readers.get(name, ()), precision))
    return weights


def _is_large(op: Any) -> bool:
    """Return True if the value of a constant is in the weight file, and not in the program itself."""
    return bool(op.attributes["val"].WhichOneof("value") == "blobFileValue")


def _type(op: Any, name: str, types: Mapping[str, Any]) -> Any:
    """Return the type of an operator's argument `name`. In programs for systems before iOS 18, it is an attribute."""
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
