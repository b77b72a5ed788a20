"""What depends on constants only is computed when compiling, so that no backend has to refuse it."""

from __future__ import annotations

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.constants import Constants
from edgecore.ir.graph import calls, edit, replace
from edgecore.passes.quantized import is_dequantize

MAX_BYTES = 1 << 20
"""Greatest result that is folded unless it is no larger than the constants that it comes from."""


def fold_constants(program: ExportedProgram) -> ExportedProgram:
    """Replace operators of a single tensor result that read constants only, or nothing, by their value.

    Random operators, symbolic sizes and dequantized weights stay. A chain is folded whole: each result is a constant for the next one.
    """
    constants = Constants(program)
    with edit(program) as graph_module:
        for node in calls(graph_module):
            if _is_foldable(constants, node):
                args, kwargs = torch.fx.map_arg((node.args, node.kwargs), constants.get)
                assert isinstance(node.target, OpOverload)
                with torch.no_grad():
                    value = node.target(*args, **kwargs)
                val = node.meta["val"]
                if value.stride() != val.stride():
                    value = torch.empty_strided(val.shape, val.stride(), dtype=val.dtype).copy_(value)
                replace(node, constants.add(f"{node.name}_folded", value))
    constants.drop_unused()
    return program


def _is_foldable(constants: Constants, node: Node) -> bool:
    val, target, sources = node.meta["val"], node.target, node.all_input_nodes
    if not isinstance(target, OpOverload) or not isinstance(val, torch.Tensor) or target._schema.is_mutable:
        return False
    if is_dequantize(node) or torch.Tag.nondeterministic_seeded in target.tags:
        return False
    if not all(constants.has(source) for source in sources):
        return False
    if not all(isinstance(size, int) for size in val.shape):
        return False
    return bool(val.nbytes <= max(MAX_BYTES, sum(source.meta["val"].nbytes for source in sources)))
