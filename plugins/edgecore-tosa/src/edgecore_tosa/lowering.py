"""Lower a partition to a TOSA graph."""

from __future__ import annotations

import operator
from typing import Any

from torch.export import ExportedProgram

from edgecore.sdk import PartitionView
from edgecore_tosa.builder.builder import DTYPES, Builder, Value
from edgecore_tosa.graph import Graph, Tensor
from edgecore_tosa.graph.origins import assign_unwritten
from edgecore_tosa.operators import table_of
from edgecore_tosa.schema import Op
from edgecore_tosa.spec import TosaSpec


def lower(program: ExportedProgram, spec: TosaSpec) -> Graph:
    """Return the TOSA graph of a partition, with the order and shapes of the partition's inputs and outputs.

    `Operator.source` and `Operator.others` are the fx nodes that an operator computes.

    Args:
        program: The partition, as `BackendCompiler.preprocess` receives it. `spec` must support its calls.
        spec: The TOSA specification: profile and extensions.
    """
    part = PartitionView(program)
    table = table_of(spec)
    builder = Builder(spec, table.parameters(part.constants.get), part.constants.get)
    for node in part.inputs:
        val = node.meta["val"]
        tensor = Tensor(tuple(val.shape), DTYPES[val.dtype])
        builder.graph.inputs.append(tensor)
        builder.values[node] = Value(tensor, tuple(range(val.dim())))
    results: dict[Any, list[Value]] = {}
    for node in part.calls:
        builder.node = node
        if node.target is operator.getitem:
            builder.values[node] = results[node.args[0]][node.args[1]]  # type: ignore[index]
            continue
        value = table.rows[node.target].lower(builder)
        if isinstance(value, list):
            results[node] = value
        else:
            builder.values[node] = value
    builder.node = None
    graph = builder.graph
    for node in part.outputs:
        count = len(graph.operators)
        graph.outputs.append(_separate(builder, builder.read(builder.real(builder.value(node)))))
        for added in graph.operators[count:]:
            added.source = node
    graph.remove_unread()
    assign_unwritten(graph, part.calls, {node: value.tensor for node, value in builder.values.items()})
    return graph


def _separate(builder: Builder, tensor: Tensor) -> Tensor:
    """Copy an output that is also an input, a constant or another output: TOSA needs a separate tensor per output."""
    graph = builder.graph
    if tensor in graph.inputs or tensor in graph.outputs or tensor.data is not None:
        return builder.emit(Op.IDENTITY, [tensor], tensor.shape, tensor.dtype)
    return tensor
