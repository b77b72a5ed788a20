"""Compile a partition into a blob: lower the partition to an XNNPACK subgraph, run the passes, encode the subgraph."""

from __future__ import annotations

from typing import Any

from torch.export import ExportedProgram

from edgecore.plugin import MemoryNeed, PreprocessResult
from edgecore.sdk import Constants
from edgecore_xnnpack.blob.format import encode
from edgecore_xnnpack.graph.lower import Lowering
from edgecore_xnnpack.graph.subgraph import Subgraph, SubgraphValue
from edgecore_xnnpack.graph.symbolic_shapes import Symbols, merge
from edgecore_xnnpack.operators import TABLE
from edgecore_xnnpack.passes.column_packing import pack_columns
from edgecore_xnnpack.passes.fp16 import convert_to_fp16
from edgecore_xnnpack.passes.fuse import fuse
from edgecore_xnnpack.passes.layout import assign_layouts
from edgecore_xnnpack.passes.quantize import quantize
from edgecore_xnnpack.passes.simplify_transposes import simplify_transposes


def build_subgraph(program: ExportedProgram, force_fp16: bool = False) -> Subgraph:
    """Lower a partition to an XNNPACK subgraph and run the passes.

    With symbolic sizes, the partition is lowered for several sampled values of the sizes; `merge` then marks as
    symbolic the sizes in which the results differ.
    """
    constants, arrays = Constants(program), dict[Any, Any]()
    samples = Symbols(program).samples
    subgraph = merge([Lowering(constants, sizes, arrays).run(program, TABLE.rows) for sizes in samples])
    fuse(subgraph)
    quantize(subgraph, has_symbolic_sizes=len(samples) > 1)
    fuse(subgraph)  # fuse again: `quantize` removed conversions that separated operations from their clamps
    convert_to_fp16(subgraph, everything=force_fp16)
    simplify_transposes(subgraph)
    pack_columns(subgraph)
    assign_layouts(subgraph)
    return subgraph


def preprocess(program: ExportedProgram, force_fp16: bool = False) -> PreprocessResult:
    """Compile one partition into a blob; the result's field `memory` estimates the memory needed at run time."""
    subgraph = build_subgraph(program, force_fp16)
    encoded = encode(subgraph)
    return PreprocessResult(
        blob=encoded.blob,
        named_data=encoded.named_data,
        debug_handle_map=encoded.handles,
        value_dim_orders=encoded.dim_orders,
        memory=_memory(subgraph),
        unread_results=subgraph.unread,
    )


def _memory(subgraph: Subgraph) -> tuple[MemoryNeed, ...]:
    """Estimate the memory of a delegate: the peak of live internal values, and a packed copy of each weight."""
    last_use: dict[SubgraphValue, int] = {}
    for index, op in enumerate(subgraph.nodes):
        for value in op.inputs:
            last_use[value] = index
    external = set(subgraph.inputs) | {value for value, _ in subgraph.outputs} | subgraph.in_states
    weights = {value for op in subgraph.nodes for value in op.inputs if value.constant is not None}
    live = peak = 0
    for index, op in enumerate(subgraph.nodes):
        live += sum(value.bytes for value in (op.output, op.second) if value is not None and value not in external)
        peak = max(peak, live)
        for value in set(op.inputs) - external - weights:
            live -= value.bytes if last_use[value] == index else 0
    packed = sum(value.bytes for value in weights)
    needs = (("scratch", peak), ("persistent", packed))
    return tuple(MemoryNeed(kind, size) for kind, size in needs if size)  # type: ignore[arg-type]
