"""What torchao's `quantize_` leaves in an exported program, in terms of the edge dialect.

Weights are tensor subclasses, whose integers, scales and zero points become constants of their own; torchao's affine
operators become those of `quantized_decomposed` where there is one. What is left goes through torch's decompositions.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
import torch.ao.quantization.fx._decomposed  # registers the operators
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from edgecore.ir.constants import Constants
from edgecore.ir.graph import Editor, calls, edit, fake_mode, replace
from edgecore.ir.op_args import argument

library = torch.ops.quantized_decomposed
INT8 = (-128, 127)


def rewrite_torchao(program: ExportedProgram) -> ExportedProgram:
    """Rewrite weights quantized row by row or in groups of a row, and values rounded row by row (int8, asymmetric)."""
    named = [node for node in calls(program.graph_module) if isinstance(node.target, torch._ops.OpOverload)]
    if not any(node.target.namespace in ("export", "torchao") for node in named):  # type: ignore[union-attr]
        return program
    constants = Constants(program)
    with edit(program) as graph_module:
        for node in calls(graph_module):
            if _is(node, "export::access_subclass_inner_tensor") and constants.has(node.args[0]):
                tensor, name = constants.get(node.args[0]), str(node.args[1])  # type: ignore[arg-type]
                replace(node, constants.add(f"{node.args[0]}_{name}", getattr(tensor, name)))
        for node in calls(graph_module):
            if _is(node, "torchao::choose_qparams_affine"):
                _round_rows(graph_module, node)
            elif _is(node, "torchao::dequantize_affine"):
                _weight(graph_module, node, constants)
    constants.drop_unused()
    return program


def _is(node: Any, name: str) -> bool:
    target = getattr(node, "target", None)
    return isinstance(target, torch._ops.OpOverload) and target._schema.name == name


def _round_rows(graph_module: GraphModule, node: Node) -> None:
    """Three operators, choose_qparams, quantize and dequantize, which must agree about blocks and limits."""
    source = node.args[0]
    assert isinstance(source, Node)
    rank, width = source.meta["val"].dim(), source.meta["val"].shape[-1]
    items = [user for user in node.users if user.target is operator.getitem]
    quantizes = {user for item in items for user in item.users if _is(user, "torchao::quantize_affine")}
    dequantizes = {user for item in items for user in item.users if _is(user, "torchao::dequantize_affine")}
    rounding = (argument(node, "mapping_type"), argument(node, "target_dtype"), argument(node, "eps"))
    if rounding != ("ASYMMETRIC", torch.int8, None) or len(items) != len(node.users):
        return
    if any(user not in quantizes | dequantizes for item in items for user in item.users):
        return
    if any(user not in dequantizes for quantized in quantizes for user in quantized.users):
        return
    for one in (node, *quantizes, *dequantizes):
        limits = argument(one, "quant_min"), argument(one, "quant_max")
        if argument(one, "block_size") != [1] * (rank - 1) + [width] or limits not in (INT8, (None, None)):
            return
        if one is not node and not _has_scales_of(one, node):
            return
    editor = Editor(graph_module, node, fake_mode(graph_module))
    chosen = editor.call(library.choose_qparams_per_token_asymmetric.default, source, torch.int8)
    parameters = [editor.call(operator.getitem, chosen, i, val=chosen.meta["val"][i]) for i in (0, 1)]
    for one in quantizes:
        editor.origin = one
        rounded = editor.call(library.quantize_per_token.default, one.args[0], *parameters, *INT8, torch.int8)
        replace(one, rounded)
    for one in dequantizes:
        editor.origin = one
        form = (*INT8, torch.int8, one.meta["val"].dtype)
        replace(one, editor.call(library.dequantize_per_token.default, one.args[0], *parameters, *form))


def _has_scales_of(node: Node, chosen: Node) -> bool:
    given = (argument(node, "scale"), argument(node, "zero_point"))
    return all(isinstance(one, Node) and one.args == (chosen, i) for i, one in enumerate(given))


def _weight(graph_module: GraphModule, node: Node, constants: Constants) -> None:
    """A constant matrix of int8 whose rows, or groups of a row's entries, have a scale each."""
    weight, scale, zero_point = (argument(node, name) for name in ("input", "scale", "zero_point"))
    if not constants.has(weight) or not constants.has(scale) or not (zero_point is None or constants.has(zero_point)):
        return
    integers, block = constants.get(weight), argument(node, "block_size")
    if integers.dim() != 2 or integers.dtype != torch.int8 or block[0] != 1 or integers.shape[1] % block[1] != 0:
        return
    low, high = argument(node, "quant_min"), argument(node, "quant_max")
    limits = (INT8[0] if low is None else low, INT8[1] if high is None else high, torch.int8)
    result = node.meta["val"].dtype
    groups = (integers.shape[0], integers.shape[1] // block[1])
    scales = constants.get(scale).to(result).reshape(groups)
    zeros = torch.zeros(groups) if zero_point is None else constants.get(zero_point).reshape(groups)
    if not torch.equal(zeros, zeros.round()):
        return
    editor = Editor(graph_module, node, fake_mode(graph_module))
    if groups[1] == 1:
        scales, zeros = scales.reshape(-1), zeros.reshape(-1)
    parameters = [constants.add(f"{weight}_scales", scales), constants.add(f"{weight}_zeros", zeros.to(torch.int64))]
    if groups[1] == 1:
        arguments = (weight, *parameters, 0, *limits)
        made = editor.call(library.dequantize_per_channel.default, *arguments, out_dtype=result)
    else:
        arguments = (weight, *parameters, *limits, block[1], result)
        made = editor.call(library.dequantize_per_channel_group.default, *arguments)
    replace(node, made)
