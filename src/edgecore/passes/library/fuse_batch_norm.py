"""Fuse batch norms into the weights of the convolution before them."""

from __future__ import annotations

import operator

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.graph import calls, edit, replace
from edgecore.ir.program.constants import Constants

aten = torch.ops.aten

_PART = 1 << 15
"""Number of elements of a weight that are multiplied at a time."""


def fuse_batch_norm(program: ExportedProgram) -> ExportedProgram:
    """Fuse `convolution -> _native_batch_norm_legit_no_training` if nothing else reads the convolution.

    For each output channel, w' = w * gamma / sqrt(var + eps) and b' = (b - mean) * gamma / sqrt(var + eps) + beta. Both
    are computed in float64.
    """
    constants = Constants(program)
    with edit(program) as graph_module:
        for norm in calls(graph_module, aten._native_batch_norm_legit_no_training.default):
            conv = norm.args[0]
            assert isinstance(conv, Node)
            if _can_fuse(constants, conv, norm):
                _fuse(constants, conv, norm)
    constants.drop_unused()
    return program


def _can_fuse(constants: Constants, conv: Node, norm: Node) -> bool:
    if conv.target is not aten.convolution.default or len(conv.users) != 1:
        return False
    parameters = [conv.args[1], conv.args[2], *norm.args[1:5]]
    if not all(parameter is None or constants.has(parameter) for parameter in parameters):
        return False
    transposed, groups = conv.args[6], conv.args[8]
    return not (transposed and groups != 1) and all(user.args[1] == 0 for user in norm.users)


def _fuse(constants: Constants, conv: Node, norm: Node) -> None:
    weight_node, bias_node = conv.args[1], conv.args[2]
    assert isinstance(weight_node, Node)
    gamma, beta, mean, var = (constants.get(arg).double() if isinstance(arg, Node) else None for arg in norm.args[1:5])
    assert mean is not None and var is not None
    weight = constants.get(weight_node)
    scale = torch.rsqrt(var + float(norm.args[6]))  # type: ignore[arg-type]
    scale = scale if gamma is None else scale * gamma
    old_bias = constants.get(bias_node).double() if isinstance(bias_node, Node) else torch.zeros_like(mean)
    bias = (old_bias - mean) * scale + (0 if beta is None else beta)
    shape = [1] * weight.dim()
    shape[1 if conv.args[6] else 0] = -1
    scaled = _product(weight, scale.reshape(shape))

    conv.update_arg(1, _store(constants, weight_node, scaled, f"{conv.name}_weight"))
    # Reuse the placeholder of the norm's or the convolution's bias if nothing else reads it.
    old_node = norm.args[2] if isinstance(norm.args[2], Node) else bias_node
    name, fused_bias = f"{conv.name}_bias", bias.to(weight.dtype)
    if isinstance(old_node, Node):
        conv.update_arg(2, _store(constants, old_node, fused_bias, name))
    else:
        conv.update_arg(2, constants.add(name, fused_bias, weight_node))
    for user in list(norm.users):
        assert user.target is operator.getitem
        replace(user, conv)
    norm.graph.erase_node(norm)


def _product(weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Multiply a weight by factors in float64, in parts that fit into the processor's cache."""
    result = torch.empty_like(weight)
    rows = max(1, _PART // max(1, weight[0].numel()))
    factors = scale.expand(len(weight), *[-1] * (weight.dim() - 1))
    for start in range(0, len(weight), rows):
        part = slice(start, start + rows)
        result[part] = weight[part].double() * factors[part]
    return result


def _store(constants: Constants, node: Node, tensor: torch.Tensor, name: str) -> Node:
    """Store `tensor` as a constant and return its placeholder.

    Overwrites the constant of `node` if it has the same shape and no other reader; otherwise adds a new constant.
    """
    if len(node.users) == 1 and constants.get(node).shape == tensor.shape:
        constants.set(node, tensor)
        return node
    return constants.add(name, tensor, node)
