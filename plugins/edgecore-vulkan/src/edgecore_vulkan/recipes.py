"""Quantization recipes of the Vulkan backend for `edgecore.compile(quantize=...)`, with their parameters."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from functools import partial
from typing import Literal

import torch
from pydantic import Field
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from edgecore.errors import NothingToQuantize
from edgecore.plugin import QuantizerRecipe, RecipeSupport, RewriteRecipe, Selects
from edgecore.sdk import (
    SMALLEST_SCALE,
    Constants,
    Editor,
    RecipeParameters,
    argument,
    calls,
    copy_program,
    edit,
    fake_mode,
    functionalize,
)
from edgecore.sdk.annotations import OBSERVERS
from edgecore.sdk.torch_compat import quantized_operators
from edgecore_vulkan.quantizer import VulkanQuantizer, get_symmetric_quantization_config

aten = torch.ops.aten
library = quantized_operators()

_INT8 = (-128, 127, torch.int8)
_CANDIDATES = 7


class Int8(RecipeParameters):
    """Parameters of the quantization recipe `int8`."""

    weights: Literal["channel"] = "channel"
    activations: Literal["static"] = "static"
    observer: Literal["histogram", "minmax", "moving-average"] = "histogram"


class Int8Dynamic(RecipeParameters):
    """Parameters of the quantization recipe `int8-dynamic`."""

    weights: Literal["channel"] = "channel"
    activations: Literal["dynamic"] = "dynamic"


class Int8Weights(RecipeParameters):
    """Parameters of the quantization recipe `int8-weights`."""

    weights: Literal["channel"] = "channel"
    activations: Literal["none", "dynamic"] = "none"


class Int4Weights(RecipeParameters):
    """Parameters of the quantization recipe `int4-weights`."""

    weights: Literal["group", "channel"] = "group"
    group: int = Field(default=32, ge=8, multiple_of=8)
    activations: Literal["dynamic", "none"] = "dynamic"


def quantize_linear_layers(
    program: ExportedProgram, selects: Selects, *, recipe: str, bits: int, group: int | None = None, is_dynamic: bool
) -> ExportedProgram:
    """Return a copy of `program` in which linear layers read dequantized integer weights.

    Args:
        program: The exported program.
        selects: Returns True for the calls to quantize.
        recipe: The name of the recipe, for the error message.
        bits: 4 or 8, the bits of weights.
        group: Number of elements of a row that share a scale; None for one scale per row. A row whose length is not a
            multiple of `group` also has one scale.
        is_dynamic: True to quantize inputs per row at run time, False to keep them in floating point.

    Raises:
        NothingToQuantize: The program has no linear layer with a constant float32 matrix.
    """
    program = functionalize(copy_program(program))
    constants = Constants(program)
    weights: dict[str | None, tuple[Node, ...]] = {}
    with edit(program) as graph_module:
        for node in filter(selects, calls(graph_module, aten.linear.default)):
            matrix = argument(node, "weight")
            val = matrix.meta["val"]
            if not constants.has(matrix) or val.dtype != torch.float32 or val.dim() != 2 or not val.numel():
                continue
            target = constants.specs[matrix.name].target
            if target not in weights:
                weights[target] = _integers(matrix, constants, bits, group)
            node.update_arg(1, _dequantized(graph_module, node, weights[target], bits))
            if is_dynamic:
                node.update_arg(0, _quantized_rows(graph_module, node))
    if not weights:
        raise NothingToQuantize(f"quantize={recipe!r}: the model has no linear layer with a constant float32 matrix")
    constants.drop_unused()
    return program


def _integers(matrix: Node, constants: Constants, bits: int, group: int | None) -> tuple[Node, ...]:
    """Add constants for a matrix (integers, scales, and zero points if rows have one scale); return their nodes."""
    rows = constants.get(matrix)
    count, width = rows.shape
    length = group if group is not None and width % group == 0 else width
    groups = rows.reshape(count, -1, length)
    scales = _best_scales(groups, bits)
    integers = _rounded(groups, scales, bits).to(torch.int8).reshape(rows.shape)
    added = {"integers": integers, "scales": scales}
    if length == width:
        added = {"integers": integers, "scales": scales[:, 0], "zeros": torch.zeros(count, dtype=torch.int64)}
    return tuple(constants.add(f"{matrix.name}_{name}", tensor, matrix) for name, tensor in added.items())


def _rounded(groups: torch.Tensor, scales: torch.Tensor, bits: int) -> torch.Tensor:
    limit = 1 << (bits - 1)
    return (groups / scales.unsqueeze(2)).round().clamp(-limit, limit - 1)


def _best_scales(groups: torch.Tensor, bits: int) -> torch.Tensor:
    """Return each group's scale: the candidate with the least squared error; some candidates clip large weights."""
    largest = groups.abs().amax(2).clamp(min=SMALLEST_SCALE)
    limit = (1 << (bits - 1)) - 1
    smallest = torch.full_like(largest, torch.inf)
    best = largest
    for stretched in range(_CANDIDATES if bits == 4 else 1):
        scales = largest / (limit + stretched / 2)
        error = (groups - _rounded(groups, scales, bits) * scales.unsqueeze(2)).square().sum(2)
        best, smallest = torch.where(error < smallest, scales, best), torch.minimum(error, smallest)
    return best


def _dequantized(graph_module: GraphModule, node: Node, weight: tuple[Node, ...], bits: int) -> Node:
    editor, limit = Editor(graph_module, node, fake_mode(graph_module)), 1 << (bits - 1)
    limits = (-limit, limit - 1, torch.int8)
    if len(weight) == 3:
        return editor.call(library.dequantize_per_channel.default, *weight, 0, *limits)
    integers, scales = (part.meta["val"].shape for part in weight)
    form = (*limits, integers[1] // scales[1], torch.float32)
    return editor.call(library.dequantize_per_channel_group.default, *weight, None, *form)


def _quantized_rows(graph_module: GraphModule, node: Node) -> Node:
    """Quantize the input of the layer `node` per row, with scales and zero points that are computed at run time."""
    editor, source = Editor(graph_module, node, fake_mode(graph_module)), node.args[0]
    chosen = editor.call(library.choose_qparams_per_token_asymmetric.default, source, torch.int8)
    parameters = [editor.call(operator.getitem, chosen, index, val=chosen.meta["val"][index]) for index in (0, 1)]
    integers = editor.call(library.quantize_per_token.default, source, *parameters, *_INT8)
    return editor.call(library.dequantize_per_token.default, integers, *parameters, *_INT8, torch.float32)


def _int8(parameters: Int8) -> QuantizerRecipe:
    config = get_symmetric_quantization_config(is_static=True, observer=OBSERVERS[parameters.observer])
    return QuantizerRecipe(lambda: VulkanQuantizer().set_global(config), calibrates=True)


def _rewrite(recipe: str, bits: int, is_dynamic: bool, group: int | None = None) -> RewriteRecipe:
    return RewriteRecipe(partial(quantize_linear_layers, recipe=recipe, bits=bits, group=group, is_dynamic=is_dynamic))


def _int8_weights(parameters: Int8Weights) -> RewriteRecipe:
    return _rewrite("int8-weights", 8, parameters.activations == "dynamic")


def _int4_weights(parameters: Int4Weights) -> RewriteRecipe:
    group = parameters.group if parameters.weights == "group" else None
    return _rewrite("int4-weights", 4, parameters.activations == "dynamic", group)


def _fp16(parameters: RecipeParameters) -> RewriteRecipe:
    return RewriteRecipe(lambda program, selects: copy_program(program), {"force_fp16": True}, "float16")


RECIPES: Mapping[str, RecipeSupport] = {
    "int8": RecipeSupport(Int8, _int8),
    "int8-dynamic": RecipeSupport(Int8Dynamic, lambda chosen: _rewrite("int8-dynamic", 8, True)),
    "int8-weights": RecipeSupport(Int8Weights, _int8_weights),
    "int4-weights": RecipeSupport(Int4Weights, _int4_weights),
    "fp16": RecipeSupport(RecipeParameters, _fp16, takes_rules=False),
}
