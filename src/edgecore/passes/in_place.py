"""In-place operators: the arguments that they write, and their functional overloads."""

from __future__ import annotations

from functools import cache

import torch
from torch.fx import Node

from edgecore.ir.op_args import argument
from edgecore.ir.torch_compat import OpOverload, schema_of

aten = torch.ops.aten

_SELF = [("self", "Tensor")]
"""Names and types of the written arguments of an in-place operator that has a functional form."""


def is_mutable(node: Node) -> bool:
    """Return True if a node calls an operator that writes into an argument."""
    return isinstance(node.target, OpOverload) and schema_of(node.target).is_mutable


@cache
def functional_form(target: OpOverload) -> OpOverload | None:
    """Return the functional overload of an in-place operator: `aten.relu.default` for `aten.relu_.default`.

    The overload name may differ: `aten.pow_.Scalar` becomes `aten.pow.Tensor_Scalar`, because `aten.pow.Scalar` has a
    number as `self`. Returns None if there is no such overload, or if the operator writes or returns more than `self`.
    """
    name = schema_of(target).name.partition("::")[2]
    written = [arg for arg in schema_of(target).arguments if arg.alias_info is not None and arg.alias_info.is_write]
    if not name.endswith("_") or name.startswith("__") or [(arg.name, str(arg.type)) for arg in written] != _SELF:
        return None
    packet = getattr(getattr(torch.ops, target.namespace), name[:-1], None)
    for overload_name in packet.overloads() if packet is not None else ():
        overload: OpOverload = getattr(packet, overload_name)
        if _parameters(overload) == _parameters(target):
            return overload
    return None


def _parameters(target: OpOverload) -> list[tuple[str, str]]:
    return [(parameter.name, str(parameter.type)) for parameter in schema_of(target).arguments]


def written_by(node: Node) -> list[Node]:
    """Return the tensors that a call writes according to its operator's schema."""
    assert isinstance(node.target, OpOverload)
    parameters = [
        parameter
        for parameter in schema_of(node.target).arguments
        if parameter.alias_info is not None and parameter.alias_info.is_write
    ]
    values = (argument(node, parameter.name) for parameter in parameters)
    lists = (value if isinstance(value, (list, tuple)) else [value] for value in values)
    return [tensor for tensors in lists for tensor in tensors if isinstance(tensor, Node)]


def writes_statistics(node: Node) -> bool:
    """Return True for a norm in training: it updates running statistics, although its schema does not declare this."""
    if node.target is aten.batch_norm.default:
        return bool(argument(node, "training")) and argument(node, "running_mean") is not None
    is_instance_norm = node.target is aten.instance_norm.default
    return is_instance_norm and bool(argument(node, "use_input_stats")) and argument(node, "running_mean") is not None
