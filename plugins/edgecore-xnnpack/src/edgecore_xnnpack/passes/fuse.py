"""Fuse clamps into the operation before them, and zero padding into the convolution after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from edgecore_xnnpack.graph.subgraph import Subgraph, SubgraphNode, SubgraphValue
from edgecore_xnnpack.schema import graph as g

HAS_CLAMP = frozenset({
    g.Conv2d, g.DepthwiseConv2d, g.ConvTranspose2d, g.FullyConnected, g.Add, g.Subtract, g.Multiply, g.Div,
    g.AvgPooling2d, g.MaxPooling2d, g.Clamp,
})  # fmt: skip
"""Kinds of nodes that can clamp their output at no extra cost."""


def fuse(subgraph: Subgraph) -> None:
    """Fuse operations of `subgraph` in place, unless their intermediate result has other readers."""
    _clamp_before_reshapes(subgraph)
    _drop(subgraph, _fuse_clamp)
    _drop(subgraph, _fuse_pad)


def _clamp_before_reshapes(subgraph: Subgraph) -> None:
    """Swap a reshape and the clamp that reads it, if the operation before the reshape can then absorb the clamp."""
    producers, uses = subgraph.producers(), subgraph.uses()
    positions = {op: index for index, op in enumerate(subgraph.nodes)}
    for index, op in enumerate(subgraph.nodes):
        reshape = producers.get(op.inputs[0])
        if op.kind is not g.Clamp or reshape is None or reshape.kind is not g.StaticReshape or uses[op.inputs[0]] != 1:
            continue
        source = reshape.inputs[0]
        before = producers.get(source)
        if before is None or before.kind not in HAS_CLAMP or uses[source] != 1:
            continue
        clamped = replace(source)
        subgraph.nodes[positions[reshape]] = replace(op, inputs=[source], output=clamped)
        subgraph.nodes[index] = moved = replace(reshape, inputs=[clamped], output=op.output)
        producers[op.output] = moved


def _drop(subgraph: Subgraph, rewrite: Callable[[SubgraphNode, SubgraphNode], bool]) -> None:
    """Call `rewrite` with each operation and the producer of its first input, if nothing else reads this input.

    If `rewrite` returns True, one of the two operations is removed: a clamp after its producer, or a padding before
    its reader.
    """
    producers, uses = subgraph.producers(), subgraph.uses()
    elided: set[SubgraphNode] = set()
    for op in subgraph.nodes:
        producer = producers.get(op.inputs[0])
        if producer is not None and uses[producer.output] == 1 and rewrite(op, producer):
            handles = tuple(dict.fromkeys(producer.handles + op.handles))
            fused, dropped = (producer, op) if op.kind is g.Clamp else (op, producer)
            fused.handles = handles
            elided.add(dropped)
            producers[fused.output] = fused
    subgraph.nodes = [op for op in subgraph.nodes if op not in elided]


def _fuse_clamp(op: SubgraphNode, producer: SubgraphNode) -> bool:
    """Make the output range of `producer` the intersection of its current range and the range of the clamp `op`."""
    if op.kind is not g.Clamp or producer.kind not in HAS_CLAMP:
        return False
    assert op.clamp is not None
    low, high = op.clamp
    if producer.clamp is not None:
        low, high = (min(max(bound, low), high) for bound in producer.clamp)
        if low >= high:
            # The ranges do not overlap, so the result is always `low`. XNNPACK refuses an empty range, and its release
            # of 2024-11 fuses two such clamps into wrong results. So `op` becomes a minimum or maximum.
            op.kind = g.Maximum if low == op.clamp[0] else g.Minimum
            op.inputs.append(SubgraphValue((1,), constant=np.full(1, low, np.float32)))
            op.clamp = None
            return False
    producer.clamp = (low, high)
    producer.output = op.output
    return True


def _fuse_pad(op: SubgraphNode, producer: SubgraphNode) -> bool:
    """Remove a zero padding of height and width; the padding of the convolution that reads the image grows by it."""
    if op.kind not in (g.Conv2d, g.DepthwiseConv2d) or producer.kind is not g.StaticConstantPad:
        return False
    before, after = producer.attributes["pre_paddings"], producer.attributes["post_paddings"]
    if producer.attributes["padding_value"] != 0 or any(before[:2]) or any(after[:2]):
        return False
    for name, extra in zip(("top", "left", "bottom", "right"), (*before[2:], *after[2:]), strict=True):
        op.attributes[f"padding_{name}"] += extra
    source: SubgraphValue = producer.inputs[0]
    op.inputs[0] = source
    return True
