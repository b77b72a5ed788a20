"""Integer convolutions of images of few channels, read two columns at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgecore_xnnpack.net import FIRST, Alias, Fixed, Layout, Net, Op, Open
from edgecore_xnnpack.schema import graph as g

MOST_CHANNELS = 4
"""Integer kernels multiply inputs of a pixel by twos, fours, eights or 64s; three of them waste as much as the fourth."""


def pair_columns(net: Net) -> None:
    """Rewrite in place, before layouts are chosen.

    A convolution with a stride of 2 moves by whole pairs of columns. Two pixels with channels last are one of twice as
    many channels, whose weights are those of both, and zeros where the kernel starts or ends within a pair: the same
    sums of integers, in fewer steps.
    """
    ops: list[Op] = []
    for op in net.ops:
        if op.kind is g.Conv2d and _has_pairs(op):
            ops += _paired(op)
        ops.append(op)
    net.ops = ops


def _has_pairs(op: Op) -> bool:
    shape, a = op.inputs[0].shape, op.attributes
    weight = op.inputs[1].constant
    is_open = isinstance(shape[3], Open) or sum(isinstance(size, Open) for size in shape) > 1
    if weight is None or weight.dtype != np.int8 or is_open or shape[3] % 2 or shape[1] > MOST_CHANNELS:
        return False
    steps = (a["subsampling_width"], a["dilation_width"], a["groups"])
    return steps == (2, 1, 1) and a["kernel_width"] > 1 and _padding(op)[1] >= 0


def _padding(op: Op) -> tuple[int, int]:
    """In pairs of columns, left and right."""
    left = (op.attributes["padding_left"] + 1) // 2
    return left, op.output.shape[3] - 1 + _width(op) - op.inputs[0].shape[3] // 2 - left


def _width(op: Op) -> int:
    """Of the kernel, in pairs; with an odd padding it starts at the second column of one."""
    return int(op.attributes["padding_left"] % 2 + op.attributes["kernel_width"] + 1) // 2


def _paired(op: Op) -> list[Op]:
    """Make `op` read pairs; the operations that make them, none of which moves a byte."""
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
        Op(Alias, [image], rows, Fixed(Layout.LAST, Layout.FIRST), handles=op.handles),
        Op(g.StaticReshape, [rows], pairs, FIRST, {"new_shape": pairs.shape}, handles=op.handles),
        Op(Alias, [pairs], paired, Fixed(Layout.FIRST, Layout.LAST), handles=op.handles),
    ]
