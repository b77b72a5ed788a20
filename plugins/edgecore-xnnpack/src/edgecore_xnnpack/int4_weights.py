"""The recipe `int4-weights`: linear layers of 4-bit weights in groups of 32, whose inputs are rounded at run time.

Products with a constant matrix and convolutions of single pixels are linear layers too.
"""

from __future__ import annotations

import operator

import torch
import torch.ao.quantization.fx._decomposed  # registers the operators
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from edgecore.errors import CompileError
from edgecore.ir.constants import Constants
from edgecore.ir.graph import Editor, edit, fake_mode, for_each, replace
from edgecore.ir.program import copy_program
from edgecore.passes.functionalize import functionalize
from edgecore.passes.rewrites import argument
from edgecore_xnnpack.float_weights import float_weights

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
        _make_linear(graph_module, constants)
        for node, weight in float_weights(graph_module, constants, {aten.linear.default: "weight"}):
            target = constants.specs[weight.name].target
            if target not in done:
                done[target] = _integers(weight, constants)
            node.update_arg(0, _rounded(graph_module, node))
            node.update_arg(1, _dequantized(graph_module, node, done[target]))
    if not done:
        raise CompileError("quantize='int4-weights': the model has no linear layer with a constant float32 weight")
    constants.drop_unused()
    return program


_MATRICES = {aten.mm.default: "mat2", aten.matmul.default: "other", aten.addmm.default: "mat2"}
_PIXELS = {aten.conv1d.default: "weight", aten.conv2d.default: "weight"}


def _make_linear(graph_module: GraphModule, constants: Constants) -> None:
    """Linear layers in the place of what computes the same."""
    turned: dict[str | None, Node] = {}

    def matrix(weight: Node, tensor: torch.Tensor) -> Node:
        target = constants.specs[weight.name].target
        if target not in turned:
            turned[target] = constants.add(f"{weight.name}_matrix", tensor.contiguous())
        return turned[target]

    for node, weight in list(float_weights(graph_module, constants, _MATRICES)):
        bias = argument(node, "self") if node.target is aten.addmm.default else None
        if weight.meta["val"].dim() == 2 and (bias is None or _is_plain_sum(node, weight)):
            given = argument(node, "mat1") if bias is not None else node.args[0]
            editor = Editor(graph_module, node, fake_mode(graph_module))
            held = matrix(weight, constants.get(weight).t())
            replace(node, editor.call(aten.linear.default, given, held, bias))
    for node, weight in list(float_weights(graph_module, constants, _PIXELS)):
        if _is_of_pixels(node, weight):
            editor = Editor(graph_module, node, fake_mode(graph_module))
            rank = weight.meta["val"].dim()
            last = editor.call(aten.permute.default, node.args[0], [0, *range(2, rank), 1])
            held = matrix(weight, constants.get(weight).flatten(1))
            made = editor.call(aten.linear.default, last, held, argument(node, "bias"))
            replace(node, editor.call(aten.permute.default, made, [0, rank - 1, *range(1, rank - 1)]))


def _is_plain_sum(node: Node, weight: Node) -> bool:
    """Whether an addmm adds a row as it is."""
    factors = [argument(node, name) for name in ("beta", "alpha")]
    return factors == [1, 1] and tuple(argument(node, "self").meta["val"].shape) == tuple(weight.meta["val"].shape[1:])


def _is_of_pixels(node: Node, weight: Node) -> bool:
    """Whether a convolution computes each pixel of a batch from the same pixel."""
    plain = {"stride": 1, "padding": 0}
    given = all(set(for_each(argument(node, name), 1)) == {number} for name, number in plain.items())
    shape = weight.meta["val"].shape
    is_batch = argument(node, "input").meta["val"].dim() == len(shape)
    return given and is_batch and argument(node, "groups") == 1 and set(shape[2:]) == {1}


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
