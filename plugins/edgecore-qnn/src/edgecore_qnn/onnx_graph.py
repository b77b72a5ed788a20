"""Build the ONNX model of a partition."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.fx import Node

from edgecore.errors import CompileError
from edgecore.plugin import BlobGraph, BlobNode
from edgecore.sdk import LARGEST_SCORE, PartitionView, debug_handles, holds_scores, shape
from edgecore_qnn.operators import TABLE
from edgecore_qnn.operators.builder import Builder
from edgecore_qnn.operators.quantized import scale_of
from edgecore_qnn.schema.header import Tensor

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

OPSET = 21
"""ONNX operator set: the first one that supports uint16 in QuantizeLinear."""
_IR_VERSION = 10
_TYPES = {
    torch.float32: "FLOAT", torch.float16: "FLOAT16", torch.uint8: "UINT8", torch.int8: "INT8", torch.uint16: "UINT16",
    torch.int16: "INT16", torch.int32: "INT32", torch.int64: "INT64", torch.bool: "BOOL",
}  # fmt: skip
"""Names of dtypes in ONNX."""


@dataclass(frozen=True)
class OnnxGraph:
    """The ONNX model of a partition.

    Attributes:
        model: The model, which ONNX's checker has accepted.
        owners: Maps the name of an ONNX node to the partition's node for which the ONNX node was added.
        inputs: The inputs, in the order of the delegate's arguments.
        outputs: The outputs, in the order of the delegate's results.
    """

    model: ModelProto
    owners: Mapping[str, Node]
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]

    def debug_handle_map(self) -> dict[int | str, tuple[int, ...]]:
        """Map the name of each ONNX node to its debug handles; omit ONNX nodes without handles."""
        return {name: handles for name, node in self.owners.items() if (handles := debug_handles(node))}

    def blob_graph(self) -> BlobGraph:
        """Return the ONNX nodes, except constants, for the graph view: a context binary does not list operations."""
        from onnx import TensorProto, shape_inference

        inferred = shape_inference.infer_shapes(self.model).graph
        texts = {}
        for value in (*inferred.input, *inferred.value_info, *inferred.output):
            tensor = value.type.tensor_type
            sizes = [dim.dim_value for dim in tensor.shape.dim]
            texts[value.name] = f"{TensorProto.DataType.Name(tensor.elem_type).lower()} {sizes}"
        nodes = self.model.graph.node
        names = [*(tensor.name for tensor in self.inputs), *(name for node in nodes for name in node.output)]
        numbers = {name: number for number, name in enumerate(names)}
        return BlobGraph(
            tuple(
                BlobNode(
                    node.name, node.op_type, tuple(numbers[name] for name in node.input if name in numbers),
                    tuple(numbers[name] for name in node.output),
                )
                for node in nodes
            ),
            tuple(numbers[tensor.name] for tensor in self.inputs),
            tuple(numbers[tensor.name] for tensor in self.outputs),
            {number: texts.get(name, "") for name, number in numbers.items()},
        )  # fmt: skip

    def to_bytes(self) -> bytes:
        """Serialize the model; equal partitions give equal bytes."""
        content: bytes = self.model.SerializeToString(deterministic=True)
        return content


def lower(partition: PartitionView) -> OnnxGraph:
    """Build the ONNX model of a partition.

    Raises:
        CompileError: The model is not valid ONNX.
    """
    return build(partition, partition.inputs, partition.calls, partition.outputs)


def build(
    partition: PartitionView, inputs: Sequence[Node], calls: Sequence[Node], outputs: Sequence[Node]
) -> OnnxGraph:
    """Build the ONNX model of `calls`, which are nodes of a program; `inputs` are the values that these nodes read."""
    from onnx import helper

    builder = Builder(partition)
    for index, source in enumerate(inputs):
        builder.values[source] = f"input_{index}"
    for node in calls:
        builder.owner = node
        if node.target is operator.getitem:
            producer, position = node.args
            builder.values[node] = builder.values[producer][position]  # type: ignore[index]
        else:
            builder.values[node] = TABLE.rows[node.target].lower(builder, node)
    named = {}
    for index, node in enumerate(outputs):  # names of inputs and outputs must differ in ONNX
        builder.owner = node
        value = builder.values[node]
        is_taken = value in named or not _is_produced(builder, value)
        named[builder.add("Identity", value) if is_taken else value] = f"output_{index}"
    nodes = builder.nodes
    for onnx_node in nodes:
        onnx_node.input[:] = [named.get(name, name) for name in onnx_node.input]
        onnx_node.output[:] = [named.get(name, name) for name in onnx_node.output]
    graph = helper.make_graph(
        nodes,
        "edgecore",
        [_info(f"input_{index}", node) for index, node in enumerate(inputs)],
        [_info(f"output_{index}", node) for index, node in enumerate(outputs)],
        builder.initializers,
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=_IR_VERSION, producer_name="edgecore"
    )
    _check(model, builder.owners)
    return OnnxGraph(
        model,
        builder.owners,
        [_input(f"input_{index}", node) for index, node in enumerate(inputs)],
        [_tensor(f"output_{index}", node) for index, node in enumerate(outputs)],
    )


def _is_produced(builder: Builder, value: str) -> bool:
    return any(value in onnx_node.output for onnx_node in builder.nodes)


def _info(name: str, node: Node) -> ValueInfoProto:
    from onnx import TensorProto, helper

    return helper.make_tensor_value_info(name, TensorProto.DataType.Value(_TYPES[node.meta["val"].dtype]), shape(node))


def _input(name: str, node: Node) -> Tensor:
    tensor = _tensor(name, node)
    if holds_scores(node):
        tensor.largest = LARGEST_SCORE
    return tensor


def _tensor(name: str, node: Node) -> Tensor:
    """Describe an input or output of the graph; integers have the scale of the node that (de)quantizes them."""
    dtype = str(node.meta["val"].dtype).removeprefix("torch.")
    tensor = Tensor(name, dtype, [int(size) for size in shape(node)])
    scales = [scale_of(other) for other in (node, *node.users)]
    scale = next(filter(None, scales), None)
    if scale is not None and dtype == scale.dtype:
        tensor.scale, tensor.zero_point = scale.scale, scale.zero
    return tensor


def _check(model: ModelProto, owners: Mapping[str, Node]) -> None:
    """Raise an error if the model is not valid; the cause is then a mistake in a row of the operator table."""
    import onnx

    try:
        onnx.checker.check_model(model)
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        text = str(error)
        node = next((owner for name, owner in owners.items() if name in text), None)
        where = "" if node is None else f" (from {node.name})"
        raise CompileError(f"the ONNX graph of the partition is not valid{where}: {text.splitlines()[0]}") from None
