"""Activation clamps become part of the node before them, zero padding part of the convolution after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from edgecore_xnnpack.net import Net, Op, Value
from edgecore_xnnpack.schema import graph as g

TAKES_CLAMP = frozenset({
    g.Conv2d, g.DepthwiseConv2d, g.ConvTranspose2d, g.FullyConnected, g.Add, g.Subtract, g.Multiply, g.Div,
    g.AvgPooling2d, g.MaxPooling2d, g.Clamp,
})  # fmt: skip
"""Nodes that limit their output."""


def fuse(net: Net) -> None:
    """Fuse in place. A value that anything else reads stays."""
    _clamp_before_reshapes(net)
    _drop(net, _fuse_clamp)
    _drop(net, _fuse_pad)


def _clamp_before_reshapes(net: Net) -> None:
    """Exchange a clamp with the reshape before it, where the operation before that one takes it."""
    producers, uses = net.producers(), net.uses()
    places = {op: index for index, op in enumerate(net.ops)}
    for index, op in enumerate(net.ops):
        reshape = producers.get(op.inputs[0])
        if op.kind is not g.Clamp or reshape is None or reshape.kind is not g.StaticReshape or uses[op.inputs[0]] != 1:
            continue
        source = reshape.inputs[0]
        before = producers.get(source)
        if before is None or before.kind not in TAKES_CLAMP or uses[source] != 1:
            continue
        clamped = replace(source)
        net.ops[places[reshape]] = replace(op, inputs=[source], output=clamped)
        net.ops[index] = moved = replace(reshape, inputs=[clamped], output=op.output)
        producers[op.output] = moved


def _drop(net: Net, rewrite: Callable[[Op, Op], bool]) -> None:
    """Offer each operation and the one that computes its input to `rewrite`; True drops the one that became part."""
    producers, uses = net.producers(), net.uses()
    gone: set[Op] = set()
    for op in net.ops:
        producer = producers.get(op.inputs[0])
        if producer is not None and uses[producer.output] == 1 and rewrite(op, producer):
            handles = tuple(dict.fromkeys(producer.handles + op.handles))
            kept, dropped = (producer, op) if op.kind is g.Clamp else (op, producer)
            kept.handles = handles
            gone.add(dropped)
            producers[kept.output] = kept
    net.ops = [op for op in net.ops if op not in gone]


def _fuse_clamp(op: Op, producer: Op) -> bool:
    if op.kind is not g.Clamp or producer.kind not in TAKES_CLAMP:
        return False
    assert op.clamp is not None
    low, high = op.clamp
    if producer.clamp is not None:
        low, high = (min(max(bound, low), high) for bound in producer.clamp)
        if low >= high:  # XNNPACK refuses an empty range; of 2024-11, it even fuses two disjoint clamps wrongly
            op.kind = g.Maximum if low == op.clamp[0] else g.Minimum
            op.inputs.append(Value((1,), constant=np.full(1, low, np.float32)))
            op.clamp = None
            return False
    producer.clamp = (low, high)
    producer.output = op.output
    return True


def _fuse_pad(op: Op, producer: Op) -> bool:
    if op.kind not in (g.Conv2d, g.DepthwiseConv2d) or producer.kind is not g.StaticConstantPad:
        return False
    before, after = producer.attributes["pre_paddings"], producer.attributes["post_paddings"]
    if producer.attributes["padding_value"] != 0 or any(before[:2]) or any(after[:2]):
        return False
    for name, extra in zip(("top", "left", "bottom", "right"), (*before[2:], *after[2:]), strict=True):
        op.attributes[f"padding_{name}"] += extra
    source: Value = producer.inputs[0]
    op.inputs[0] = source
    return True
