"""The recipe `int4-weights`: linear layers of 4-bit weights in groups of 32, whose inputs are rounded at run time."""

from __future__ import annotations

import operator

import torch
import torch.ao.quantization.fx._decomposed  # registers the operators
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from edgecore.errors import CompileError
from edgecore.ir.constants import Constants
from edgecore.ir.graph import Editor, calls, edit, fake_mode
from edgecore.ir.program import copy_program
from edgecore.passes.functionalize import functionalize
from edgecore.passes.rewrites import argument

aten = torch.ops.aten
library = torch.ops.quantized_decomposed
GROUP = 32
LIMITS = (-8, 7)
STEPS = tuple(7 + 0.5 * step for step in range(7))
"""Candidates for the scale of a group: its greatest magnitude divided by these."""


def quantize_linear_layers(program: ExportedProgram) -> ExportedProgram:
    """A copy of `program` with the weights of its linear layers quantized.

    A layer whose width is no multiple of 32 gets 8 bits with a scale for each row. Raises `CompileError` if there is no
    layer with a constant weight.
    """
    program = functionalize(copy_program(program))
    constants = Constants(program)
    done: dict[str | None, tuple[Node, ...]] = {}
    with edit(program) as graph_module:
        for node in calls(graph_module, aten.linear.default):
            weight = argument(node, "weight")
            if not constants.has(weight) or weight.meta["val"].dtype != torch.float32:
                continue
            target = constants.specs[weight.name].target
            if target not in done:
                done[target] = _integers(weight, constants)
            node.update_arg(0, _rounded(graph_module, node))
            node.update_arg(1, _dequantized(graph_module, node, done[target]))
    if not done:
        raise CompileError("quantize='int4-weights': the model has no linear layer with a constant float32 weight")
    constants.drop_unused()
    return program


def _rounded(graph_module: GraphModule, node: Node) -> Node:
    """The input of a layer in 8 bits, with a scale and a zero point for each row."""
    editor, limits = Editor(graph_module, node, fake_mode(graph_module)), (-128, 127, torch.int8)
    chosen = editor.call(library.choose_qparams_per_token_asymmetric.default, node.args[0], torch.int8)
    found = [editor.call(operator.getitem, chosen, index, val=chosen.meta["val"][index]) for index in (0, 1)]
    whole = editor.call(library.quantize_per_token.default, node.args[0], *found, *limits)
    return editor.call(library.dequantize_per_token.default, whole, *found, *limits, torch.float32)


def _integers(weight: Node, constants: Constants) -> tuple[Node, ...]:
    """The constants that take the place of a weight."""
    values = constants.get(weight)
    if values.shape[1] % GROUP == 0:
        whole, scales = quantize_groups(values)
        made = {"int4": whole, "scales": scales}
    else:
        scales = (values.abs().amax(1) / 127).clamp(min=torch.finfo(torch.float32).eps)
        whole = (values / scales[:, None]).round().to(torch.int8)
        made = {"int8": whole, "scales": scales, "zeros": torch.zeros_like(scales, dtype=torch.int64)}
    return tuple(constants.add(f"{weight.name}_{name}", tensor) for name, tensor in made.items())


def _dequantized(graph_module: GraphModule, node: Node, integers: tuple[Node, ...]) -> Node:
    editor = Editor(graph_module, node, fake_mode(graph_module))
    if len(integers) == 3:
        return editor.call(library.dequantize_per_channel.default, *integers, 0, -127, 127, torch.int8)
    form = (None, *LIMITS, torch.int8, GROUP, torch.float32)
    return editor.call(library.dequantize_per_channel_group.default, *integers, *form)


def quantize_groups(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """int8 [rows, width] from -8 to 7 and float32 scales [rows, width / 32], which bfloat16 has as well.

    Of the candidates for a scale, the one with the least squared error.
    """
    groups = weight.reshape(-1, GROUP)
    greatest = groups.abs().amax(1, keepdim=True).clamp(min=torch.finfo(torch.float32).eps)
    least = torch.full_like(greatest, torch.inf)
    scales = torch.empty_like(greatest)
    for step in STEPS:
        scale = (greatest / step).to(torch.bfloat16).float()
        error = (groups - (groups / scale).round().clamp(*LIMITS) * scale).square().sum(1, keepdim=True)
        scales = torch.where(error < least, scale, scales)
        least = torch.minimum(least, error)
    whole = (groups / scales).round().clamp(*LIMITS).to(torch.int8)
    return whole.reshape(weight.shape), scales.reshape(weight.shape[0], -1)
