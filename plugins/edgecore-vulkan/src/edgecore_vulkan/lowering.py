"""Compile a partition into a blob: lower it to calls, run the passes on them, and encode them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.export import ExportedProgram

from edgecore.plugin import CompileSpec, MemoryNeed, PreprocessResult
from edgecore.sdk import PartitionView
from edgecore_vulkan.blob.encode import encode, held_dtype
from edgecore_vulkan.graph.calls import CallGraph, TensorValue
from edgecore_vulkan.graph.lower import lower, separate_outputs
from edgecore_vulkan.graph.profile import Profile
from edgecore_vulkan.passes.layout import assign_memories
from edgecore_vulkan.passes.memory import assign_memory_objects, peak_bytes
from edgecore_vulkan.passes.quantize import quantize
from edgecore_vulkan.passes.rotary import fuse_rotary
from edgecore_vulkan.passes.simplify import simplify


def preprocess(program: ExportedProgram, specs: Sequence[CompileSpec]) -> PreprocessResult:
    """Compile one partition into a blob; the compile specs `specs` contain a `Profile`."""
    profile = Profile.of_specs(specs)
    graph = build_graph(program, profile)
    encoded = encode(graph, profile)
    return PreprocessResult(
        blob=encoded.blob,
        named_data=encoded.named_data,
        debug_handle_map=encoded.handles,
        memory=_memory(graph, profile),
    )


def build_graph(program: ExportedProgram, profile: Profile) -> CallGraph:
    """Lower a partition to operator calls, and run all passes on them."""
    graph = lower(program, profile)
    quantize(graph, profile)
    if not profile.is_stock:
        fuse_rotary(graph)
    simplify(graph)
    separate_outputs(graph, [node.meta["val"].dtype for node in PartitionView(program).outputs])
    assign_memories(graph, profile)
    if not profile.skip_memory_planning:
        assign_memory_objects(graph)
    return graph


def _memory(graph: CallGraph, profile: Profile) -> tuple[MemoryNeed, ...]:
    """Estimate two sizes: memory of constants and intermediate tensors, and staging memory of inputs and outputs."""

    def size(value: TensorValue, dtype: torch.dtype) -> int:
        return value.elements * dtype.itemsize

    tensors = {
        value for call in graph.calls for value in (*call.inputs(), *call.outputs) if isinstance(value, TensorValue)
    } | {value for value in graph.inputs if isinstance(value, TensorValue)}
    sizes = {value: size(value, held_dtype(value.dtype, profile)) for value in tensors}
    constants = sum(count for value, count in sizes.items() if value.constant is not None)
    ends = [value for value in (*graph.inputs, *graph.outputs) if isinstance(value, TensorValue)]
    staging = sum(size(value, value.dtype) for value in ends)
    needs = (("persistent", constants + peak_bytes(graph, sizes)), ("staging", staging))
    return tuple(MemoryNeed(kind, count) for kind, count in needs if count)  # type: ignore[arg-type]
