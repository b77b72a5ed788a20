"""The recipes `int4-weights` and `int8-weights`: linear layers with weights of 4 or 8 bits.

Matmuls with a constant matrix, and 1 x 1 convolutions, also become linear layers.
"""

from __future__ import annotations

import operator

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
    for_each,
    functionalize,
    is_dequantize,
    replace,
)
from edgecore.sdk.torch_compat import quantized_operators
from edgecore_xnnpack.recipes.float_weights import float_weights

aten = torch.ops.aten
library = quantized_operators()
FLOATS = (torch.float32, torch.float16)
LIMITS = (-8, 7)
STEPS = tuple(7 + 0.5 * step for step in range(7))
"""Divisors for the scale of a group: each candidate is the maximum magnitude in the group divided by one of these."""


def quantize_linear_layers(
    program: ExportedProgram, selects: Selects, *, bits: int, group: int | None = None, is_dynamic: bool = True
) -> ExportedProgram:
    """Return a copy of `program` with quantized weights in its linear layers.

    Args:
        program: The exported program.
        selects: Returns True for the calls to quantize.
        bits: 4 or 8, the bits of weights.
        group: The number of elements that share a scale, with 4 bits; None for a scale per row. A weight whose row
            length is not a multiple of `group` gets 8 bits and a scale per row.
        is_dynamic: True to quantize inputs per token at run time, False to keep them in floating point.

    Raises:
        NothingToQuantize: The program has no linear layer with a constant weight of float32 or float16, and nothing
            else is quantized.
    """
    program = functionalize(copy_program(program))
    constants = Constants(program)
    quantized: dict[str | None, tuple[Node, ...]] = {}
    with edit(program) as graph_module:
        _make_linear(graph_module, constants, selects)
        for node, weight in float_weights(graph_module, constants, {aten.linear.default: "weight"}, selects, FLOATS):
            target = constants.specs[weight.name].target
            if target not in quantized:
                quantized[target] = _integers(weight, constants, bits, group)
            if is_dynamic:
                node.update_arg(0, _quantize_input(graph_module, node))
            node.update_arg(1, _dequantized(graph_module, node, quantized[target], bits, group))
        if not quantized and not any(map(is_dequantize, calls(graph_module))):
            raise NothingToQuantize(
                f"quantize='int{bits}-weights': the model has no linear layer with a constant weight of float32 or "
                "float16"
            )
    constants.drop_unused()
    return program


_MATRICES = {aten.mm.default: "mat2", aten.matmul.default: "other", aten.addmm.default: "mat2"}
_PIXELS = {aten.conv1d.default: "weight", aten.conv2d.default: "weight"}


def _make_linear(graph_module: GraphModule, constants: Constants, selects: Selects) -> None:
    """Replace matmuls and convolutions by linear layers, if these compute the same result."""
    matrices: dict[str | None, Node] = {}

    def add_matrix(weight: Node, tensor: torch.Tensor) -> Node:
        """Return the constant for a linear layer's matrix; nodes with the same `weight` share one constant."""
        target = constants.specs[weight.name].target
        if target not in matrices:
            matrices[target] = constants.add(f"{weight.name}_matrix", tensor.contiguous(), weight)
        return matrices[target]

    for node, weight in list(float_weights(graph_module, constants, _MATRICES, selects, FLOATS)):
        bias = argument(node, "self") if node.target is aten.addmm.default else None
        if weight.meta["val"].dim() == 2 and (bias is None or _is_plain_sum(node, weight)):
            rows = argument(node, "mat1") if bias is not None else node.args[0]
            editor = Editor(graph_module, node, fake_mode(graph_module))
            matrix = add_matrix(weight, constants.get(weight).t())
            replace(node, editor.call(aten.linear.default, rows, matrix, bias))
    for node, weight in list(float_weights(graph_module, constants, _PIXELS, selects, FLOATS)):
        if _is_pointwise(node, weight):
            editor = Editor(graph_module, node, fake_mode(graph_module))
            rank = weight.meta["val"].dim()
            channels_last = editor.call(aten.permute.default, node.args[0], [0, *range(2, rank), 1])
            matrix = add_matrix(weight, constants.get(weight).flatten(1))
            result = editor.call(aten.linear.default, channels_last, matrix, argument(node, "bias"))
            pixels = editor.call(aten.permute.default, result, [0, rank - 1, *range(1, rank - 1)])
            # Copy, because a view that follows needs contiguous memory in eager mode. Lowering to the edge dialect
            # drops the copy.
            if node.meta["val"].is_contiguous():
                pixels = editor.call(aten.clone.default, pixels, memory_format=torch.contiguous_format)
            replace(node, pixels)


def _is_plain_sum(node: Node, weight: Node) -> bool:
    """Return True if an addmm computes a linear layer: alpha and beta are 1, and the addend is a bias row."""
    factors = [argument(node, name) for name in ("beta", "alpha")]
    return factors == [1, 1] and tuple(argument(node, "self").meta["val"].shape) == tuple(weight.meta["val"].shape[1:])


def _is_pointwise(node: Node, weight: Node) -> bool:
    """Return True if a convolution computes each pixel from the same input pixel only, for a batched input."""
    plain = {"stride": 1, "padding": 0}
    is_plain = all(set(for_each(argument(node, name), 1)) == {number} for name, number in plain.items())
    shape = weight.meta["val"].shape
    is_batch = argument(node, "input").meta["val"].dim() == len(shape)
    return is_plain and is_batch and argument(node, "groups") == 1 and set(shape[2:]) == {1}


def _quantize_input(graph_module: GraphModule, node: Node) -> Node:
    """Quantize the input of a layer to int8 per token: each row gets a scale and a zero point at run time."""
    editor, limits = Editor(graph_module, node, fake_mode(graph_module)), (-128, 127, torch.int8)
    qparams = editor.call(library.choose_qparams_per_token_asymmetric.default, node.args[0], torch.int8)
    parameters = [editor.call(operator.getitem, qparams, index, val=qparams.meta["val"][index]) for index in (0, 1)]
    integers = editor.call(library.quantize_per_token.default, node.args[0], *parameters, *limits)
    dtype = node.args[0].meta["val"].dtype  # type: ignore[union-attr]
    return editor.call(library.dequantize_per_token.default, integers, *parameters, *limits, dtype)


def _integers(weight: Node, constants: Constants, bits: int, group: int | None) -> tuple[Node, ...]:
    """Add and return the constants that replace a weight: integers, scales, and zero points if scales are per row."""
    values = constants.get(weight).float()
    if bits == 4 and group is not None and values.shape[1] % group == 0:
        integers, scales = quantize_groups(values, group)
        tensors = {"int4": integers, "scales": scales}
    else:
        if bits == 4 and group is None:
            integers, scales = quantize_groups(values, values.shape[1], scale_dtype=torch.float32)
            name, scales = "int4", scales[:, 0]
        else:
            name, scales = "int8", (values.abs().amax(1) / 127).clamp(min=SMALLEST_SCALE)
            integers = (values / scales[:, None]).round().to(torch.int8)
        tensors = {name: integers, "scales": scales, "zeros": torch.zeros_like(scales, dtype=torch.int64)}
    return tuple(constants.add(f"{weight.name}_{name}", tensor, weight) for name, tensor in tensors.items())


def _dequantized(
    graph_module: GraphModule, node: Node, integers: tuple[Node, ...], bits: int, group: int | None
) -> Node:
    """Insert the dequantize node of a weight before `node`; `integers` are the constants that `_integers` returned."""
    editor, dtype = Editor(graph_module, node, fake_mode(graph_module)), node.meta["val"].dtype
    if len(integers) == 3:
        limits = (*(LIMITS if bits == 4 and group is None else (-127, 127)), torch.int8)
        return editor.call(library.dequantize_per_channel.default, *integers, 0, *limits, out_dtype=dtype)
    parameters = (None, *LIMITS, torch.int8, group, dtype)
    return editor.call(library.dequantize_per_channel_group.default, *integers, *parameters)


def quantize_groups(
    weight: torch.Tensor, group: int, scale_dtype: torch.dtype = torch.bfloat16
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize a float32 matrix [rows, width] in groups to 4 bits.

    The scale of a group is the candidate with the smallest squared error. Candidates are the maximum magnitude in the
    group divided by each number in `STEPS`.

    Args:
        weight: The matrix.
        group: The number of elements in a group; it divides the width.
        scale_dtype: The dtype to which scales are rounded: XNNPACK stores scales of groups in bf16.

    Returns:
        Integers from -8 to 7, int8 [rows, width], and scales, float32 [rows, width / group].
    """
    groups = weight.reshape(-1, group)
    magnitude = groups.abs().amax(1, keepdim=True).clamp(min=SMALLEST_SCALE)
    min_error = torch.full_like(magnitude, torch.inf)
    scales = torch.empty_like(magnitude)
    for step in STEPS:
        scale = (magnitude / step).to(scale_dtype).float()
        error = (groups - (groups / scale).round().clamp(*LIMITS) * scale).square().sum(1, keepdim=True)
        scales = torch.where(error < min_error, scale, scales)
        min_error = torch.minimum(min_error, error)
    integers = (groups / scales).round().clamp(*LIMITS).to(torch.int8)
    return integers.reshape(weight.shape), scales.reshape(weight.shape[0], -1)
