"""From a partition to a blob."""

from __future__ import annotations

import numpy as np
from torch.export import ExportedProgram

from edgecore.plugin import MemoryNeed, PreprocessResult
from edgecore_xnnpack.blob import encode
from edgecore_xnnpack.fuse import fuse
from edgecore_xnnpack.layout import assign_layouts
from edgecore_xnnpack.lowering import Lowering
from edgecore_xnnpack.net import Alias, Net, Op, Value
from edgecore_xnnpack.operators import TABLE
from edgecore_xnnpack.schema import graph as g


def build_net(program: ExportedProgram) -> Net:
    """The partition as operations in memory order."""
    net = Lowering(program).run(program, TABLE)
    fuse(net)
    assign_layouts(net)
    _detach_outputs(net)
    return net


def _detach_outputs(net: Net) -> None:
    """XNNPACK leaves an output unwritten that only copies or reshapes an input or another output: multiply by one first."""
    same_bytes = (g.Copy, g.StaticReshape, Alias)
    movers = {op.output: op for op in net.ops if op.kind in same_bytes}
    external = {*net.inputs, *(output for output, _ in net.outputs)}
    for output, _ in net.outputs:
        op = movers.get(output)
        while op is not None and op.inputs[0] not in external:
            op = movers.get(op.inputs[0])
        if op is not None:
            value = op.inputs[0]
            product = Value(value.shape, layout=value.layout)
            one = Value((1,), constant=np.ones(1, np.float32))
            net.ops.insert(net.ops.index(op), Op(g.Multiply, [value, one], product))
            op.inputs[0] = product


def preprocess(program: ExportedProgram) -> PreprocessResult:
    """Compile one partition (weights as placeholders of its signature); `memory` is an estimate."""
    net = build_net(program)
    encoded = encode(net)
    return PreprocessResult(
        blob=encoded.blob,
        named_data=encoded.named_data,
        debug_handle_map=encoded.handles,
        memory=_memory(net),
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
        live += 0 if op.output in external else 4 * op.output.size
        peak = max(peak, live)
        for value in set(op.inputs) - external - weights:
            live -= 4 * value.size if last_use[value] == index else 0
    packed = sum(4 * value.size for value in weights)
    return tuple(MemoryNeed(kind, size) for kind, size in (("scratch", peak), ("persistent", packed)) if size)  # type: ignore[arg-type]
