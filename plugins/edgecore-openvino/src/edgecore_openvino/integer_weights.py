"""The recipes `int8-weights` and `int4-weights`, which replace float weights by dequantize calls."""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from edgecore.errors import NothingToQuantize
from edgecore.plugin import Selects
from edgecore.sdk import (
    SMALLEST_SCALE,
    Constants,
    Editor,
    argument,
    calls,
    copy_program,
    edit,
    fake_mode,
    functionalize,
    is_dequantize,
)
from edgecore.sdk.torch_compat import quantized_operators

aten = torch.ops.aten
library = quantized_operators()

LAYERS = frozenset({
    aten.linear.default, aten.conv1d.default, aten.conv1d.padding, aten.conv2d.default, aten.conv2d.padding,
    aten.conv3d.default, aten.conv3d.padding,
})  # fmt: skip
"""Operators with a weight whose first dimension is the output channels."""


def quantize_weights(
    program: ExportedProgram, selects: Selects, *, bits: int, group: int | None, is_symmetric: bool
) -> ExportedProgram:
    """Return a copy of a program whose linear layers, and with 8 bits its convolutions, have integer weights.

    Args:
        program: The exported program.
        selects: Returns True for the calls to quantize.
        bits: 4 or 8.
        group: Number of elements of a row that share a scale; None for a scale per output channel. Convolutions, and
            linear layers whose row length is not a multiple of `group`, always have a scale per channel.
        is_symmetric: True for zero points of 0, False to map [minimum, maximum] to the full integer range.

    Raises:
        NothingToQuantize: The program has no layer with a constant floating-point weight.
    """
    program = functionalize(copy_program(program))
    constants = Constants(program)
    constants_of: dict[tuple[str | None, bool], tuple[Node, ...]] = {}
    with edit(program) as graph_module:
        for node in calls(graph_module):
            weight = argument(node, "weight") if node.target in LAYERS else None
            is_linear = node.target is aten.linear.default
            if weight is None or not constants.has(weight) or not (is_linear or bits == 8) or not selects(node):
                continue
            if weight.meta["val"].dtype not in (torch.float32, torch.float16) or weight.meta["val"].dim() < 2:
                continue
            has_groups = is_linear and group is not None and weight.meta["val"].shape[1] % group == 0
            key = constants.specs[weight.name].target, has_groups
            if key not in constants_of:
                constants_of[key] = _integers(constants, weight, bits, group if has_groups else None, is_symmetric)
            node.replace_input_with(weight, _dequantize(graph_module, node, constants_of[key], bits, group, has_groups))
        if not constants_of and not any(map(is_dequantize, calls(graph_module))):
            raise NothingToQuantize(
                f"quantize='int{bits}-weights': the model has no "
                f"{'linear layer or convolution' if bits == 8 else 'linear layer'} with a constant floating-point "
                "weight"
            )
    constants.drop_unused()
    return program


def _integers(
    constants: Constants, weight: Node, bits: int, group: int | None, is_symmetric: bool
) -> tuple[Node, Node, Node]:
    """Add the constants that replace a weight: integers, scales and zero points."""
    values = constants.get(weight).float()
    rows = values.reshape(-1, group) if group is not None else values.flatten(1)
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if is_symmetric:
        scales = (rows.abs().amax(1, keepdim=True) / high).clamp(min=SMALLEST_SCALE)
        zeros = torch.zeros_like(scales)
    else:
        minimum, maximum = rows.amin(1, keepdim=True).clamp(max=0), rows.amax(1, keepdim=True).clamp(min=0)
        scales = ((maximum - minimum) / (high - low)).clamp(min=SMALLEST_SCALE)
        zeros = (low - minimum / scales).round()
    integers = ((rows / scales).round() + zeros).clamp(low, high).to(torch.int8).reshape(values.shape)
    shape = (values.shape[0], -1) if group is not None else (-1,)
    tensors = {
        "integers": integers, "scales": scales.reshape(shape), "zeros": zeros.to(torch.int64).reshape(shape),
    }  # fmt: skip
    first, second, third = (constants.add(f"{weight.name}_{name}", tensor, weight) for name, tensor in tensors.items())
    return first, second, third


def _dequantize(
    graph_module: GraphModule, node: Node, parts: tuple[Node, ...], bits: int, group: int | None, has_groups: bool
) -> Node:
    editor, dtype = Editor(graph_module, node, fake_mode(graph_module)), argument(node, "weight").meta["val"].dtype
    limits = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1, torch.int8)
    if has_groups:
        return editor.call(library.dequantize_per_channel_group.default, *parts, *limits, group, dtype)
    return editor.call(library.dequantize_per_channel.default, *parts, 0, *limits, out_dtype=dtype)
