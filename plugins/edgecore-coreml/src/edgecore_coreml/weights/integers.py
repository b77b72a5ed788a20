"""Quantize weights to integers for the recipes `int8-weights` and `int4-weights`.

In the exported program, calls that dequantize integers replace the weights. So in PyTorch the program computes the same
as the `.pte`.
"""

from __future__ import annotations

import math

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from edgecore.plugin import Selects
from edgecore.sdk import SMALLEST_SCALE, Constants, Editor, argument, fake_mode
from edgecore.sdk.torch_compat import quantized_operators
from edgecore_coreml.weights.floats import CONVOLUTIONS, TRANSPOSED, rewrite_weights

aten = torch.ops.aten
library = quantized_operators()

_PRODUCTS = frozenset({aten.matmul.default, aten.mm.default, aten.addmm.default, aten.bmm.default})
_STEPS = {8: (127.0,), 4: tuple(7 + 0.5 * step for step in range(7))}
"""Maps the bits of integers to divisors of the largest magnitude in a row; each quotient is a candidate for the scale.
"""


def quantize_weights(
    program: ExportedProgram, selects: Selects, *, recipe: str, bits: int, group: int | None = None
) -> ExportedProgram:
    """Return a copy of an exported program whose float weights are replaced by dequantized integers.

    First, batch norms are folded into the convolutions that precede them. Weights of depthwise convolutions always have
    8 bits, because they are small and lose most by quantization.

    Args:
        program: The exported program.
        selects: Returns True for calls whose weights to quantize, if they are float32 constants with two or more dims.
        recipe: The name of the recipe, for the error message.
        bits: 4 or 8.
        group: Minimum number of elements of a channel that share a scale; None for a scale per output channel.

    Raises:
        CompileError: The program has no such weight.
    """

    def rewrite(graph_module: GraphModule, constants: Constants, weight: Node, nodes: list[Node]) -> None:
        needed = 8 if _is_depthwise(nodes[0]) else bits
        size = None if needed != bits or group is None else _elements(weight.meta["val"].shape, group)
        if size is None:
            dequantized = _of_channels(graph_module, constants, weight, nodes[0], needed)
        else:
            dequantized = _of_groups(graph_module, constants, weight, nodes[0], needed, size)
        for node in nodes:
            node.replace_input_with(weight, dequantized)

    missing = f"quantize={recipe!r}: the model has no constant float32 weight with two or more dims"
    return rewrite_weights(program, selects, _is_weight, rewrite, missing)


def _is_weight(val: torch.Tensor) -> bool:
    return val.dtype == torch.float32 and val.dim() > 1 and val.numel() > 0


def _is_depthwise(node: Node) -> bool:
    is_convolution = node.target in (*CONVOLUTIONS, aten.convolution.default)
    return is_convolution and argument(node, "groups") > 1 and argument(node, "weight").meta["val"].shape[1] == 1


def _elements(shape: torch.Size, group: int) -> int | None:
    """Return the number of elements of a weight's row (index of dim 0) that share a scale; None for a whole row.

    A block consists of all elements at some adjacent indices of dim 1. The smallest size >= `group` that divides the
    row is used, because all blocks must have equal sizes.
    """
    inner = math.prod(shape[2:])
    counts = [count for count in range(1, shape[1]) if shape[1] % count == 0 and count * inner >= group]
    return counts[0] * inner if counts else None


def _channel_dim(weight: Node, reader: Node) -> int:
    """Return which dim of a weight holds the output channels of the layer or matmul that reads it."""
    if reader.target in TRANSPOSED and argument(reader, "groups") == 1:
        return 1
    if reader.target in _PRODUCTS:
        return len(weight.meta["val"].shape) - (1 if reader.all_input_nodes[-1] is weight else 2)
    return 0


def _of_channels(graph_module: GraphModule, constants: Constants, weight: Node, reader: Node, bits: int) -> Node:
    """Insert calls that dequantize an integer weight with a scale per output channel, before its first reader."""
    axis, values = _channel_dim(weight, reader), constants.get(weight)
    rows = values.movedim(axis, 0).flatten(1)
    scales = _best_scales(rows, bits)
    integers = _rounded(rows, scales, bits).reshape(values.movedim(axis, 0).shape).movedim(0, axis).contiguous()
    zeros = torch.zeros(len(scales), dtype=torch.int64)
    added = _added(constants, weight, integers=integers, scales=scales[:, 0], zeros=zeros)
    limit = 1 << (bits - 1)
    editor = Editor(graph_module, reader, fake_mode(graph_module))
    return editor.call(library.dequantize_per_channel.default, *added, axis, -limit, limit - 1, torch.int8)


def _of_groups(
    graph_module: GraphModule, constants: Constants, weight: Node, reader: Node, bits: int, size: int
) -> Node:
    """Insert calls that dequantize an integer weight, with a scale per `size` elements, before its first reader."""
    values = constants.get(weight)
    groups = values.reshape(-1, size)
    scales = _best_scales(groups, bits)
    integers = _rounded(groups, scales, bits).reshape(values.shape[0], -1)
    added = _added(constants, weight, integers=integers, scales=scales.reshape(values.shape[0], -1))
    limit = 1 << (bits - 1)
    editor = Editor(graph_module, reader, fake_mode(graph_module))
    form = (None, -limit, limit - 1, torch.int8, size, torch.float32)
    matrix = editor.call(library.dequantize_per_channel_group.default, *added, *form)
    return matrix if values.dim() == 2 else editor.call(aten.view.default, matrix, list(values.shape))


def _added(constants: Constants, weight: Node, **tensors: torch.Tensor) -> list[Node]:
    return [constants.add(f"{constants.specs[weight.name].target}_{name}", tensor) for name, tensor in tensors.items()]


def _rounded(rows: torch.Tensor, scales: torch.Tensor, bits: int) -> torch.Tensor:
    limit = 1 << (bits - 1)
    return (rows / scales).round().clamp(-limit, limit - 1).to(torch.int8)


def _best_scales(rows: torch.Tensor, bits: int) -> torch.Tensor:
    """Return each row's scale [rows, 1]: the candidate with the least squared error, even if it clips large values."""
    magnitude = rows.abs().amax(1, keepdim=True).clamp(min=SMALLEST_SCALE)
    smallest, best = torch.full_like(magnitude, torch.inf), magnitude
    for step in _STEPS[bits]:
        scales = magnitude / step
        error = (rows - _rounded(rows, scales, bits) * scales).square().sum(1, keepdim=True)
        best, smallest = torch.where(error < smallest, scales, best), torch.minimum(error, smallest)
    return best
