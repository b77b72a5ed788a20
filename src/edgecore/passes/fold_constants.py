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
    """Replace operators that read constants only, or nothing, by the value of each of their results.

    Random operators, symbolic sizes and dequantized weights stay. A chain is folded whole: each result is a constant for the next one.
    """
    constants = Constants(program)
    with edit(program) as graph_module:
        for node in calls(graph_module):
            if not _is_foldable(constants, node):
                continue
            args, kwargs = torch.fx.map_arg((node.args, node.kwargs), constants.get)
            assert isinstance(node.target, OpOverload)
            with torch.no_grad():
                value = node.target(*args, **kwargs)
            if isinstance(value, torch.Tensor):
                _replace(constants, node, value)
                continue
            for item in list(node.users):  # each is a getitem
                index = item.args[1]
                assert isinstance(index, int)
                _replace(constants, item, value[index])
            graph_module.graph.erase_node(node)
    constants.drop_unused()
    return program


def _replace(constants: Constants, node: Node, value: torch.Tensor) -> None:
    val = node.meta["val"]
    if value.stride() != val.stride():
        value = torch.empty_strided(val.shape, val.stride(), dtype=val.dtype).copy_(value)
    replace(node, constants.add(f"{node.name}_folded", value))


def _is_foldable(constants: Constants, node: Node) -> bool:
    target, sources = node.target, node.all_input_nodes
    if not isinstance(target, OpOverload) or target._schema.is_mutable:
        return False
    val = node.meta["val"]
    results = val if isinstance(val, (list, tuple)) else [val]
    if not results or not all(isinstance(result, torch.Tensor) for result in results):
        return False
    if is_dequantize(node) or torch.Tag.nondeterministic_seeded in target.tags:
        return False
    if not all(constants.has(source) for source in sources):
        return False
    if not all(isinstance(size, int) for result in results for size in result.shape):
        return False
    size = sum(result.nbytes for result in results)
    return bool(size <= max(MAX_BYTES, sum(source.meta["val"].nbytes for source in sources)))
