"""Rewrite torchao's matmuls with int8 weights into linear layers of dequantized weights.

The matmuls come from torchao's `Int8WeightOnlyConfig` and `Int8DynamicActivationInt8WeightConfig`. Backends and kernels
support linear layers of dequantized weights. A decomposition into ATen would not work well: for the first config it
needs the weight in float32, for the second an integer matmul, which no runtime has.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from edgecore.ir.graph import Editor, calls, edit, fake_mode, replace
from edgecore.ir.program.constants import Constants
from edgecore.ir.torch_compat import quantized_operators

aten = torch.ops.aten
CASTS = (aten.to.dtype, aten._to_copy.default)
SHAPE_OR_DTYPE_CHANGES = (aten.flatten.using_ints, aten.reshape.default, aten.view.default, *CASTS)


def rewrite_integer_matmuls(program: ExportedProgram) -> ExportedProgram:
    """Rewrite `mm(x, cast(t(weight))) * scales` and `_int_mm(x, t(weight))` with constant int8 weights, in place."""
    nodes = calls(program.graph_module, aten.mm.default, aten._int_mm.default)
    if not nodes:
        return program
    constants = Constants(program)
    with edit(program) as graph_module:
        for node in nodes:
            weight = _weight(node, constants)
            if weight is None:
                continue
            if node.target is aten._int_mm.default:
                _rewrite_integer_matmul(graph_module, node, weight, constants)
            else:
                _rewrite_scaled_matmul(graph_module, node, weight, constants)
    constants.drop_unused()
    return program


def _weight(node: Node, constants: Constants) -> Node | None:
    """Return the int8 constant [N, K] whose transpose [K, N] is the second operand of a matmul; otherwise None."""
    right: Any = node.args[1]
    if node.target is aten.mm.default:
        if not isinstance(right, Node) or right.target not in CASTS:
            return None
        right = right.args[0]
    source = right.args[0] if isinstance(right, Node) and right.target is aten.t.default else None
    if not isinstance(source, Node) or not constants.has(source) or source.meta["val"].dtype != torch.int8:
        return None
    return source


def _scales(node: Any, constants: Constants) -> torch.Tensor | None:
    """Return `node` in float32 if it is a constant, possibly with changed shape or dtype; otherwise None."""
    if constants.has(node):
        return constants.get(node).float()
    if isinstance(node, Node) and node.target in SHAPE_OR_DTYPE_CHANGES:
        inner = _scales(node.args[0], constants)
        return None if inner is None else inner.reshape(node.meta["val"].shape)
    return None


def _rewrite_scaled_matmul(graph_module: GraphModule, node: Node, weight: Node, constants: Constants) -> None:
    users = list(node.users)
    if len(users) != 1 or users[0].target is not aten.mul.Tensor or node.meta["val"].dtype != torch.float32:
        return
    others = [factor for factor in users[0].args if factor is not node]
    scales = _scales(others[0], constants) if len(others) == 1 else None
    if scales is not None and scales.shape == weight.meta["val"].shape[:1]:
        editor = Editor(graph_module, users[0], fake_mode(graph_module))
        replace(users[0], _insert_layer(editor, node.args[0], weight, scales, constants))


def _rewrite_integer_matmul(graph_module: GraphModule, node: Node, weight: Node, constants: Constants) -> None:
    """Replace an integer matmul by a float32 linear layer whose dequantized weight has scales of 1.

    With these scales the layer multiplies the integers. float32 represents sums below 2^24 exactly, and larger sums
    with 7 digits.
    """
    editor = Editor(graph_module, node, fake_mode(graph_module))
    value = editor.call(aten._to_copy.default, node.args[0], dtype=torch.float32)
    result = _insert_layer(editor, value, weight, torch.ones(weight.meta["val"].shape[0]), constants)
    for user in list(node.users):
        if user.target in CASTS and user.meta["val"].dtype == torch.float32:
            replace(user, result)
    if node.users:
        replace(node, editor.call(aten._to_copy.default, result, dtype=torch.int32))


def _insert_layer(editor: Editor, value: Any, weight: Node, scales: torch.Tensor, constants: Constants) -> Node:
    zeros = torch.zeros(scales.shape[0], dtype=torch.int64)
    parameters = (
        constants.add(f"{weight.name}_scales", scales, weight),
        constants.add(f"{weight.name}_zeros", zeros, weight),
    )
    dequantize = quantized_operators().dequantize_per_channel.default
    matrix = editor.call(dequantize, weight, *parameters, 0, -128, 127, torch.int8)
    return editor.call(aten.linear.default, value, matrix)
