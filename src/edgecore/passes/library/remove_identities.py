"""Remove identities: copies of a dense value, views to the same shape, casts to the same dtype, requantizations."""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.dialect.dim_orders import dim_order
from edgecore.ir.dialect.op_sets import MAY_BE_IDENTITY
from edgecore.ir.graph import all_calls, edit, replace, same_sizes
from edgecore.passes.quantized import is_quantize, quantized_before

aten = torch.ops.aten


def remove_identities(program: ExportedProgram) -> ExportedProgram:
    """Remove nodes whose result equals their input in shape, dtype and dim order, and repeated quantizations.

    A copy between an input and an output of the program stays, because the two may not share memory.
    """
    with edit(program) as graph_module:
        for node in all_calls(graph_module, aten.copy.default, *MAY_BE_IDENTITY):
            source = node.args[1 if node.target is aten.copy.default else 0]  # `copy(a, b)` returns the content of b
            assert isinstance(source, Node)
            if _is_identity(source, node) and not _is_copied_to_output(source, node):
                replace(node, source)
        for node in filter(is_quantize, all_calls(graph_module)):
            source = quantized_before(node)
            if source is not None:
                replace(node, source)
    return program


def _is_identity(source: Node, node: Node) -> bool:
    before, after = source.meta["val"], node.meta["val"]
    if (
        before.dtype != after.dtype
        or not same_sizes(before.shape, after.shape)
        or dim_order(before) != dim_order(after)
    ):
        return False
    if node.target is aten.permute_copy.default:
        order = node.args[1]
        assert isinstance(order, (list, tuple))
        return list(order) == list(range(before.dim()))
    return True


def _is_copied_to_output(source: Node, node: Node) -> bool:
    """Return True if `node` copies an input of the graph to its output; the two may not share memory."""
    return source.op == "placeholder" and any(user.op == "output" for user in node.users)
