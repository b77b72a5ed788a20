"""Fold constants: compute operators with constant inputs when compiling, so that no backend has to support them."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.constants import Constants
from edgecore.ir.graph import calls, edit, replace
from edgecore.ir.lazy_constants import is_lazy
from edgecore.ir.op_sets import VIEW_COPY_FORMS
from edgecore.passes.quantized import is_dequantize

MAX_BYTES = 1 << 20
"""Maximum size of a folded result in bytes, unless it is no larger than the constants that it comes from."""

_TABLES = "quant::dequantize_codebook"
"""torchao's operator for weights of indices into tables. It is decomposed unless a backend wants it whole."""


def fold_constants(program: ExportedProgram) -> ExportedProgram:
    """Replace operators that read only constants, or nothing, by constants with their results.

    Chains are folded step by step: each result is a constant for the next operator. Random operators and results with
    symbolic sizes are not folded, nor are lazy constants. Dequantizations of weights and views of dequantized weights are not folded either,
    because backends read the integers behind them. Other operators that read a dequantized weight are folded.
    """
    constants = Constants(program)
    with edit(program) as graph_module:
        for node in calls(graph_module):
            if not _is_foldable(constants, node):
                continue
            value = _value(constants, node)
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


def _value(constants: Constants, node: Node) -> Any:
    """Return the value of a constant, or compute a node whose inputs are constants."""
    if constants.has(node):
        return constants.get(node)
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda source: _value(constants, source))
    assert isinstance(node.target, OpOverload)
    with torch.no_grad():
        return node.target(*args, **kwargs)


def _replace(constants: Constants, node: Node, value: torch.Tensor) -> None:
    val = node.meta["val"]
    if value.stride() != val.stride():
        value = torch.empty_strided(val.shape, val.stride(), dtype=val.dtype).copy_(value)
    replace(node, constants.add(f"{node.name}_folded", value))


def _is_known(constants: Constants, node: Node) -> bool:
    return constants.has(node) or (is_dequantize(node) and all(map(constants.has, node.all_input_nodes)))


def _is_foldable(constants: Constants, node: Node) -> bool:
    target, sources = node.target, node.all_input_nodes
    if not isinstance(target, OpOverload) or target._schema.is_mutable:
        return False
    val = node.meta["val"]
    results = val if isinstance(val, (list, tuple)) else [val]
    if not results or not all(isinstance(result, torch.Tensor) for result in results):
        return False
    if is_dequantize(node) or target._schema.name == _TABLES or torch.Tag.nondeterministic_seeded in target.tags:
        return False
    is_known = constants.has if target in VIEW_COPY_FORMS else partial(_is_known, constants)
    if not all(map(is_known, sources)):
        return False
    if any(constants.has(source) and is_lazy(constants.stored(source)) for source in sources):
        return False  # the result would lie in memory
    if not all(isinstance(size, int) for result in results for size in result.shape):
        return False
    size = sum(result.nbytes for result in results)
    return bool(size <= max(MAX_BYTES, sum(source.meta["val"].nbytes for source in sources)))
