"""From a partition to a blob."""

from __future__ import annotations

from typing import Any

from torch.export import ExportedProgram

from edgecore.ir.constants import Constants
from edgecore.plugin import MemoryNeed, PreprocessResult
from edgecore_xnnpack.blob import encode
from edgecore_xnnpack.fuse import fuse
from edgecore_xnnpack.half import halve
from edgecore_xnnpack.layout import assign_layouts
from edgecore_xnnpack.lowering import Lowering
from edgecore_xnnpack.moves import simplify_moves
from edgecore_xnnpack.net import Net, Value
from edgecore_xnnpack.operators import TABLE
from edgecore_xnnpack.pairs import pair_columns
from edgecore_xnnpack.quantize import quantize
from edgecore_xnnpack.sizes import Symbols, merge


def build_net(program: ExportedProgram, force_fp16: bool = False) -> Net:
    """The partition as operations in memory order."""
    constants, arrays = Constants(program), dict[Any, Any]()
    choices = Symbols(program).choices
    net = merge([Lowering(constants, sizes, arrays).run(program, TABLE) for sizes in choices])
    fuse(net)
    quantize(net, resized=len(choices) > 1)
    fuse(net)  # clamps of integers
    halve(net, everything=force_fp16)
    simplify_moves(net)
    pair_columns(net)
    assign_layouts(net)
    return net


def preprocess(program: ExportedProgram, force_fp16: bool = False) -> PreprocessResult:
    """Compile one partition (weights as placeholders of its signature); `memory` is an estimate."""
    net = build_net(program, force_fp16)
    encoded = encode(net)
    return PreprocessResult(
        blob=encoded.blob,
        named_data=encoded.named_data,
        debug_handle_map=encoded.handles,
        memory=_memory(net),
        unread_results=net.unread,
    )


def _memory(net: Net) -> tuple[MemoryNeed, ...]:
    """The greatest sum of live internal values, and the packed copies of the weights."""
    last_use: dict[Value, int] = {}
    for index, op in enumerate(net.ops):
        for value in op.inputs:
            last_use[value] = index
    external = set(net.inputs) | {value for value, _ in net.outputs}
    weights = {value for op in net.ops for value in op.inputs if value.constant is not None}
    live = peak = 0
    for index, op in enumerate(net.ops):
        live += sum(value.bytes for value in (op.output, op.second) if value is not None and value not in external)
        peak = max(peak, live)
        for value in set(op.inputs) - external - weights:
            live -= value.bytes if last_use[value] == index else 0
    packed = sum(value.bytes for value in weights)
    return tuple(MemoryNeed(kind, size) for kind, size in (("scratch", peak), ("persistent", packed)) if size)  # type: ignore[arg-type]
