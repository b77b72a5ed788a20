"""Rewrite the operators and tensors of torchao's `quantize_` in the edge dialect.

torchao's weights are tensor subclasses: their integers, scales and zero points become separate constants. torchao's
affine operators become equivalent operators of `quantized_decomposed`, where these exist. torch's decompositions handle
the other operators later.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from edgecore.ir.graph import Editor, calls, edit, fake_mode, replace
from edgecore.ir.op_args import argument
from edgecore.ir.program.constants import Constants
from edgecore.ir.torch_compat import OpOverload, quantized_operators, schema_of

library = quantized_operators()
INT8 = (-128, 127)


def rewrite_torchao(program: ExportedProgram) -> ExportedProgram:
    """Rewrite weights with scales for each row or group, and dynamic per-token quantization (int8, asymmetric)."""
    nodes = [node for node in calls(program.graph_module) if isinstance(node.target, OpOverload)]
    if not any(node.target.namespace in ("export", "torchao") for node in nodes):  # type: ignore[union-attr]
        return program
    constants = Constants(program)
    with edit(program) as graph_module:
        for node in calls(graph_module):
            if _is(node, "export::access_subclass_inner_tensor") and constants.has(node.args[0]):
                tensor, name = constants.get(node.args[0]), str(node.args[1])  # type: ignore[arg-type]
                replace(node, constants.add(f"{node.args[0]}_{name}", getattr(tensor, name), node.args[0]))
        for node in calls(graph_module):
            if _is(node, "torchao::choose_qparams_affine"):
                _rewrite_dynamic(graph_module, node)
            elif _is(node, "torchao::dequantize_affine"):
                _rewrite_weight(graph_module, node, constants)
    constants.drop_unused()
    return program


def _is(node: Any, name: str) -> bool:
    target = getattr(node, "target", None)
    return isinstance(target, OpOverload) and schema_of(target).name == name


def _rewrite_dynamic(graph_module: GraphModule, node: Node) -> None:
    """Rewrite dynamic quantization: `choose_qparams_affine` and the nodes that use its scale and zero point.

    All these nodes must be quantize and dequantize nodes with the int8 range and one block per row, like
    `choose_qparams_affine` itself; otherwise none of them is rewritten.
    """
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
    for call in (node, *quantizes, *dequantizes):
        limits = argument(call, "quant_min"), argument(call, "quant_max")
        if argument(call, "block_size") != [1] * (rank - 1) + [width] or limits not in (INT8, (None, None)):
            return
        if call is not node and not _has_scales_of(call, node):
            return
    editor = Editor(graph_module, node, fake_mode(graph_module))
    chosen = editor.call(library.choose_qparams_per_token_asymmetric.default, source, torch.int8)
    parameters = [editor.call(operator.getitem, chosen, i, val=chosen.meta["val"][i]) for i in (0, 1)]
    for call in quantizes:
        editor.origin = call
        quantized = editor.call(library.quantize_per_token.default, call.args[0], *parameters, *INT8, torch.int8)
        replace(call, quantized)
    for call in dequantizes:
        editor.origin = call
        form = (*INT8, torch.int8, call.meta["val"].dtype)
        replace(call, editor.call(library.dequantize_per_token.default, call.args[0], *parameters, *form))


def _has_scales_of(node: Node, chosen: Node) -> bool:
    parameters = (argument(node, "scale"), argument(node, "zero_point"))
    return all(isinstance(item, Node) and item.args == (chosen, i) for i, item in enumerate(parameters))


def _rewrite_weight(graph_module: GraphModule, node: Node, constants: Constants) -> None:
    """Rewrite the dequantization of a constant int8 matrix with a scale for each row, or for each group of a row."""
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
    parameters = [
        constants.add(f"{weight}_scales", scales, weight),
        constants.add(f"{weight}_zeros", zeros.to(torch.int64), weight),
    ]
    if groups[1] == 1:
        arguments = (weight, *parameters, 0, *limits)
        dequantized = editor.call(library.dequantize_per_channel.default, *arguments, out_dtype=result)
    else:
        arguments = (weight, *parameters, *limits, block[1], result)
        dequantized = editor.call(library.dequantize_per_channel_group.default, *arguments)
    replace(node, dequantized)
