"""Lower a partition to operator calls: translate each of its nodes by the operator table."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.sdk import LARGEST_SCORE, Bounds, PartitionView, holds_scores
from edgecore_vulkan.graph.calls import Call, CallGraph, SizeValue, TensorValue
from edgecore_vulkan.graph.profile import Profile
from edgecore_vulkan.operators import TABLE
from edgecore_vulkan.operators.builder import Builder
from edgecore_vulkan.operators.state import add_states, store_states


def lower(program: ExportedProgram, profile: Profile) -> CallGraph:
    """Lower a partition to operator calls; later, passes optimize them and assign memories to their tensors."""
    part, bounds = PartitionView(program), Bounds(program)

    def max_shape(val: Any, node: Node) -> tuple[int, ...]:
        return tuple(bounds.upper(size, node) for size in val.shape)

    builder = Builder(profile, part.constants.get, max_shape)
    for node in part.inputs:
        val = node.meta["val"]
        builder.values[node] = (
            TensorValue(max_shape(val, node), val.dtype) if isinstance(val, torch.Tensor) else SizeValue()
        )
        builder.graph.inputs.append(builder.values[node])
        if profile.force_fp16 and holds_scores(node):
            builder.values[node] = _finite_in_fp16(builder, builder.values[node])
    stored = add_states(builder, part.buffers)
    for node in part.calls:
        builder.nodes = (node,)
        if node.target is operator.getitem:
            producer: Any = node.args[0]
            index: Any = node.args[1]
            results = builder.values[producer]
            if index < len(results):  # the function that lowers a node may omit results that are not read
                builder.values[node] = results[index]
            continue
        builder.values[node] = TABLE.rows[node.target].lower(builder, node)
    builder.nodes = ()
    store_states(builder, stored)
    builder.graph.outputs = [builder.value(node) for node in part.outputs]
    return builder.graph


def _finite_in_fp16(b: Builder, value: TensorValue) -> TensorValue:
    """Convert a float32 input to float16 with finite numbers clamped: a mask may have -1e9, and sums must stay finite.

    `rest` restores infinities and NaN: it is `value` minus `finite`, so it is 0 where `value` is finite.
    """
    value.is_exact = True
    reduced, finite, rest, result = (TensorValue(value.shape, torch.float32, is_exact=True) for _ in range(4))
    largest = torch.finfo(torch.float32).max
    b.call("aten.clamp.default", [value, -LARGEST_SCORE, LARGEST_SCORE], reduced)
    b.call("aten.clamp.default", [value, -largest, largest], finite)
    b.call("aten.sub.Tensor", [value, finite, 1], rest)
    b.call("aten.add.Tensor", [reduced, rest, 1], result)
    half: TensorValue = b.call("aten._to_copy.default", [result, *[None] * 4, False, None], value.like())
    return half


def separate_outputs(graph: CallGraph, dtypes: list[torch.dtype]) -> None:
    """Copy an output if it is also an input, a constant or another output, or if its dtype differs from the model's."""
    seen: set[TensorValue | SizeValue] = set(graph.inputs)
    for index, (value, dtype) in enumerate(zip(graph.outputs, dtypes, strict=True)):
        if value in seen or value.constant is not None or value.dtype != dtype:
            copy = TensorValue(value.shape, dtype)
            graph.calls.append(Call("aten.clone.default", [value, None], [copy]))
            graph.outputs[index] = copy
        seen.add(graph.outputs[index])
