"""Space-to-depth along the width: int8 convolutions of few channels read two columns of the image as one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgecore_xnnpack.schema import graph as g
from edgecore_xnnpack.subgraph import FIRST, Alias, FixedLayouts, Layout, Subgraph, SubgraphNode, SymbolicSize

MAX_CHANNELS = 4
"""Input channels of a convolution that gains.

Integer kernels multiply the channels of a pixel in groups of 2, 4, 8 or 64; a partial group, such as the 3 of an RGB
image, costs as much as a full one.
"""


def pack_columns(subgraph: Subgraph) -> None:
    """Rewrite in place, before layouts are chosen.

    With channels last, [N, H, W, C] and [N, H, W / 2, 2 C] have the same bytes. A convolution with a stride of 2
    along the width therefore equals one with a stride of 1 on pairs of columns, whose weights are those of both
    columns, and zeros where the kernel starts or ends within a pair. The sums of integers are exactly the same; the
    kernel has fewer, fuller steps.
    """
    ops: list[SubgraphNode] = []
    for op in subgraph.nodes:
        if op.kind is g.Conv2d and _has_pairs(op):
            ops += _paired(op)
        ops.append(op)
    subgraph.nodes = ops


def _has_pairs(op: SubgraphNode) -> bool:
    shape, a = op.inputs[0].shape, op.attributes
    weight = op.inputs[1].constant
    varies = isinstance(shape[3], SymbolicSize) or sum(isinstance(size, SymbolicSize) for size in shape) > 1
    if weight is None or weight.dtype != np.int8 or varies or shape[3] % 2 or shape[1] > MAX_CHANNELS:
        return False
    steps = (a["subsampling_width"], a["dilation_width"], a["groups"])
    return steps == (2, 1, 1) and a["kernel_width"] > 1 and _padding(op)[1] >= 0


def _padding(op: SubgraphNode) -> tuple[int, int]:
    """Return the padding at the left and at the right, in pairs of columns."""
    left = (op.attributes["padding_left"] + 1) // 2
    return left, op.output.shape[3] - 1 + _width(op) - op.inputs[0].shape[3] // 2 - left


def _width(op: SubgraphNode) -> int:
    """Return the kernel's width in pairs of columns; with an odd padding it starts at the second column of a pair."""
    return int(op.attributes["padding_left"] % 2 + op.attributes["kernel_width"] + 1) // 2


def _paired(op: SubgraphNode) -> list[SubgraphNode]:
    """Make `op` read pairs of columns; return the operations that make the pairs, none of which moves a byte."""
    image, weight, a = op.inputs[0], op.inputs[1], op.attributes
    assert weight.constant is not None
    batch, channels, height, width = image.shape
    rows = replace(image, shape=(batch, height, width, channels), layout=Layout.FIRST)
    pairs = replace(rows, shape=(batch, height, width // 2, 2 * channels))
    paired = replace(pairs, shape=(batch, 2 * channels, height, width // 2))
    start, columns = a["padding_left"] % 2, _width(op)
    outputs, kernel_height, kernel_width, _ = weight.shape
    numbers = np.zeros((outputs, kernel_height, 2 * columns, channels), np.int8)
    numbers[:, :, start : start + kernel_width] = weight.constant
    shape = (outputs, kernel_height, columns, 2 * channels)
    left, right = _padding(op)
    op.inputs = [paired, replace(weight, shape=shape, constant=numbers.reshape(shape)), *op.inputs[2:]]
    op.attributes = a | {
        "padding_left": left, "padding_right": right, "kernel_width": columns, "subsampling_width": 1,
        "group_input_channels": 2 * channels,
    }  # fmt: skip
    return [
        SubgraphNode(Alias, [image], rows, FixedLayouts(Layout.LAST, Layout.FIRST), handles=op.handles),
        SubgraphNode(g.StaticReshape, [rows], pairs, FIRST, {"new_shape": pairs.shape}, handles=op.handles),
        SubgraphNode(Alias, [pairs], paired, FixedLayouts(Layout.FIRST, Layout.LAST), handles=op.handles),
    ]
