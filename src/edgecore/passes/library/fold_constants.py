"""Fold constants: compute operators with constant inputs at compile time, so that no backend has to support them."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.ir.dialect.op_sets import VIEW_COPY_FORMS
from edgecore.ir.graph import calls, edit, replace
from edgecore.ir.program.constants import Constants
from edgecore.ir.program.lazy_constants import is_lazy
from edgecore.ir.torch_compat import OpOverload, schema_of
from edgecore.passes.quantized import is_dequantize

MAX_BYTES = 1 << 20
"""Largest size in bytes of a folded result, unless the constants from which it is computed are as large."""

_TABLES = "quant::dequantize_codebook"
"""torchao's operator for weights that are indices into tables; decomposed unless a backend wants it whole."""


def fold_constants(program: ExportedProgram) -> ExportedProgram:
    """Replace operators that read only constants, or nothing, by constants with their results.

    Chains are folded step by step: each result is a constant for the next operator. Random operators, results with
    symbolic sizes, and lazy constants are not folded. Dequantized weights and their views are not folded either,
    because backends read the integers. Other operators that read a dequantized weight are folded.
    """
    constants = Constants(program)
    known = _Known(constants)
    with edit(program) as graph_module:
        folded: list[Node] = []
        for node in calls(graph_module):
            if not _is_foldable(known, node):
                continue
            value = known.value(node)
            if isinstance(value, torch.Tensor):
                known.put(node, value)
                folded.append(node)
                continue
            for item in list(node.users):  # each user is a getitem
                index = item.args[1]
                assert isinstance(index, int)
                known.put(item, value[index])
                folded.append(item)
        for node in reversed(folded):  # from the end, so that a value that only folded operators read gets no constant
            if node.users:
                replace(node, constants.add(f"{node.name}_folded", known.folded[node], _first_constant(node)))
            else:
                graph_module.graph.erase_node(node)
    constants.drop_unused()
    return program


def _first_constant(node: Node) -> Node | None:
    """Return the first constant from which a folded node was computed; None if the node has no inputs."""
    while node.op == "call_function":
        if not node.all_input_nodes:
            return None
        node = node.all_input_nodes[0]
    return node


class _Known:
    """The values that are known at compile time: constants of the program, and folded operators.

    Attributes:
        constants: The constants of the program.
        folded: The result of each folded operator.
    """

    def __init__(self, constants: Constants) -> None:
        self.constants = constants
        self.folded: dict[Node, torch.Tensor] = {}

    def has(self, node: Node) -> bool:
        """Return True if a node is a constant or was folded."""
        return node in self.folded or self.constants.has(node)

    def is_lazy(self, node: Node) -> bool:
        """Return True for a constant whose values are not in memory."""
        return self.constants.has(node) and is_lazy(self.constants.stored(node))

    def put(self, node: Node, value: torch.Tensor) -> None:
        """Store the result of an operator, with the strides of its `val`."""
        val = node.meta["val"]
        if value.stride() != val.stride():
            value = torch.empty_strided(val.shape, val.stride(), dtype=val.dtype).copy_(value)
        self.folded[node] = value

    def value(self, node: Node) -> Any:
        """Return the value of a constant or folded operator, or compute the value of a node whose inputs are known."""
        if node in self.folded:
            return self.folded[node]
        if self.constants.has(node):
            return self.constants.get(node)
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), self.value)
        assert isinstance(node.target, OpOverload)
        with torch.no_grad():
            return node.target(*args, **kwargs)


def _is_known(known: _Known, node: Node) -> bool:
    return known.has(node) or (is_dequantize(node) and all(map(known.has, node.all_input_nodes)))


def _is_foldable(known: _Known, node: Node) -> bool:
    target, sources = node.target, node.all_input_nodes
    if not isinstance(target, OpOverload) or schema_of(target).is_mutable:
        return False
    val = node.meta["val"]
    results = val if isinstance(val, (list, tuple)) else [val]
    if not results or not all(isinstance(result, torch.Tensor) for result in results):
        return False
    if is_dequantize(node) or schema_of(target).name == _TABLES or torch.Tag.nondeterministic_seeded in target.tags:
        return False
    is_known = known.has if target in VIEW_COPY_FORMS else partial(_is_known, known)
    if not all(map(is_known, sources)):
        return False
    if any(map(known.is_lazy, sources)):
        return False  # do not fold an operator on a lazy constant: its result would occupy memory
    if not all(isinstance(size, int) for result in results for size in result.shape):
        return False
    size = sum(result.nbytes for result in results)
    return bool(size <= max(MAX_BYTES, sum(source.meta["val"].nbytes for source in sources)))
