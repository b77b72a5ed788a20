"""Describe a blob's arguments and nodes, with the shapes of inputs and outputs, as text or as a graph."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields
from math import prod
from typing import Any

from edgecore.plugin import BlobGraph, BlobNode
from edgecore.sdk.flat import Buffer
from edgecore_xnnpack import native_library
from edgecore_xnnpack.blob.format import read_graph
from edgecore_xnnpack.library import DESCRIBE_FORMS, call
from edgecore_xnnpack.schema import graph as g

_OTHER_TYPE, _FP32_TYPE, _INT8_TYPE = range(3)  # C++ enum ConvolutionType
_LIMITS_OFF = (float("-inf"), float("inf"))


def describe(blob: Buffer, named_data: Mapping[str, Any]) -> list[str]:
    """Return lines about the blob and its arguments, states and nodes. Sizes are in memory order (NHWC for images).

    A convolution's line names the algorithm that the delegate would choose on this processor with the default load
    options; the load option `winograd` can change this choice.

    Raises:
        FormatError: The blob is damaged.
    """
    graph = read_graph(blob)
    values = {value.id_out: _ValueText(entry, value, graph) for entry, value in _tensors(graph)}
    constants = [constant for constant in graph.constant_data if constant.size]
    missing = sum(bool(constant.named_key) and constant.named_key not in named_data for constant in constants)
    size = sum(constant.size for constant in constants)
    kinds = Counter(type(node.node).__name__ for node in graph.nodes)
    lines = [
        f"{len(graph.nodes)} nodes: {', '.join(f'{count} {kind}' for kind, count in kinds.most_common())}",
        f"{len(constants)} constants of {size:,} bytes{f', {missing} of them not in this file' if missing else ''}",
    ]
    for kind, ids in (("input", graph.input_ids), ("output", graph.output_ids)):
        lines += [f"{kind} {index}: {_value(values, number)}" for index, number in enumerate(ids)]
    lines += [f"state {state.name}: {_value(values, state.value_id)}" for state in graph.states or ()]
    forms = _forms(graph)
    lines += forms.pop(-1, [])
    for index, node in enumerate(graph.nodes):
        lines.append("; ".join([f"node {index}: {_node(node, values)}", *forms.get(index, [])]))
    return lines


def _forms(graph: g.Graph) -> dict[int, list[str]]:
    """Map the node index of each convolution to lines about its algorithm, and -1 to lines about all convolutions."""
    tensors = {value.id_out: value for _, value in _tensors(graph)}
    numbers, indices = [], []
    for index, node in enumerate(graph.nodes):
        conv = node.node
        if not isinstance(conv, g.Conv2d) or not {conv.input1_id, conv.filter_id, conv.output_id} <= tensors.keys():
            continue
        image, kernel, output = (tensors[number] for number in (conv.input1_id, conv.filter_id, conv.output_id))
        if len(output.dims) != 4:
            continue
        is_fp32 = all(value.datatype == g.Datatype.FP32 for value in (image, kernel, output))
        is_int8 = image.datatype == output.datatype == g.Datatype.QINT8
        kind = _FP32_TYPE if is_fp32 else _INT8_TYPE if is_int8 else _OTHER_TYPE
        # Append the fields of the C++ struct ConvolutionSize in the order of its declaration
        # (native/src/convolution_forms.h).
        numbers += [
            kind, conv.kernel_height, conv.kernel_width, conv.subsampling_height, conv.subsampling_width,
            conv.dilation_height, conv.dilation_width, conv.groups, conv.group_input_channels,
            conv.group_output_channels, *output.dims[:3], (1 if is_int8 else 4) * prod(kernel.dims),
        ]  # fmt: skip
        indices.append(index)
    if not indices:
        return {}
    array = (ctypes.c_uint64 * len(numbers))(*numbers)
    try:
        summary, *forms = call(native_library(), DESCRIBE_FORMS, array, len(indices))
    except OSError as error:
        return {-1: [f"forms of the convolutions unknown: {error}"]}
    texts = {index: [f"here {form}"] for index, form in zip(indices, forms, strict=False)}
    return {-1: [f"on this processor: {summary}"], **texts}


def _tensors(graph: g.Graph) -> Iterator[tuple[g.TensorValue | g.QuantizedTensorValue, g.TensorValue]]:
    for entry in graph.values:
        value = entry.value.tensor_value if isinstance(entry.value, g.QuantizedTensorValue) else entry.value
        if entry.value is not None and value is not None:
            yield entry.value, value


class _ValueText:
    """Formats a value: for example `%7 fp32 [1, 8, 8, 16]`, its quantization parameters, and the key of a constant."""

    def __init__(self, entry: g.TensorValue | g.QuantizedTensorValue, value: g.TensorValue, graph: g.Graph) -> None:
        self.text = f"%{value.id_out} {value.datatype.name.lower()} {value.dims}"
        if isinstance(entry, g.QuantizedTensorValue):
            self.text += _quantization(entry.quant_params)
        index = value.constant_buffer_idx
        if index:
            key = graph.constant_data[index].named_key if index < len(graph.constant_data) else ""
            self.text += f" constant {key[:12] or index}"


def _quantization(parameters: g.QuantParams | None) -> str:
    match parameters:
        case g.PerTensorQuant(scale, zero_point):
            return f" scale {scale:.6g} zero {zero_point}"
        case g.PerChannelQuant():
            return f" with a scale for each index of dimension {parameters.channel_dim}"
        case g.PerChannelGroupQuant():
            return f" with a scale for each group of {parameters.group_size}"
        case g.PerTokenDynamicQuant():
            return " with a scale for each row, computed at run time"
    return ""


def _value(values: Mapping[int, _ValueText], number: int) -> str:
    return values[number].text if number in values else f"%{number} undefined"


def graph_of(blob: Buffer) -> BlobGraph:
    """Return the nodes of a blob, which refer to values by number.

    Raises:
        FormatError: The blob is damaged.
    """
    graph = read_graph(blob)
    constants = {value.id_out for _, value in _tensors(graph) if value.constant_buffer_idx}
    nodes = []
    for index, node in enumerate(graph.nodes):
        inputs, outputs, _ = _parts(node.node)
        read = tuple(number for number in inputs if number not in constants)
        nodes.append(BlobNode(index, type(node.node).__name__, read, tuple(outputs)))
    texts = {value.id_out: _ValueText(entry, value, graph).text.partition(" ")[2] for entry, value in _tensors(graph)}
    return BlobGraph(tuple(nodes), tuple(graph.input_ids), tuple(graph.output_ids), texts)


def _parts(operation: Any) -> tuple[list[int], list[int], list[str]]:
    """Return the values that an operation reads, the values that it computes, and its attributes."""
    inputs, outputs, attributes = [], [], []
    for field in fields(operation) if operation is not None else ():
        value = getattr(operation, field.name)
        if not field.name.endswith("_id"):
            if value and field.name != "num_dims":
                attributes.append(f"{field.name} {value}")
        elif field.name.startswith("output"):
            outputs.append(value)
        elif value != g.INVALID_ID and not _is_unused(operation, field.name):
            inputs.append(value)
    return inputs, outputs, attributes


def _node(node: g.Node, values: Mapping[int, _ValueText]) -> str:
    operation = node.node
    if operation is None:
        return "nothing"
    read, computed, attributes = _parts(operation)
    inputs, outputs = ([_value(values, number) for number in numbers] for numbers in (read, computed))
    limits = node.output_min_max
    if limits and (limits.output_min, limits.output_max) != _LIMITS_OFF:
        attributes.append(f"clamped to {limits.output_min:g} .. {limits.output_max:g}")
    extra = f"; {', '.join(attributes)}" if attributes else ""
    return f"{type(operation).__name__}({', '.join(inputs)}) -> {', '.join(outputs)}{extra}"


def _is_unused(operation: object, name: str) -> bool:
    """Return True for an input field that a node ignores: Concatenate2 reads two of the five fields."""
    kind = type(operation).__name__
    return kind.startswith("Concatenate") and name > f"input{kind[-1]}_id"
