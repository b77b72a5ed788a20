"""Constants that the low precision of a backend does not hold, such as 1e-12 or `finfo.min` in float16."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node
from torch.utils import _pytree as pytree

from edgecore.ir.constants import Constants
from edgecore.ir.delegate import delegates
from edgecore.ir.graph import calls, describe
from edgecore.ir.op_args import arguments_by_name

LOST = 0.1
"""The relative error of a small number from which it counts as not held."""


def unheld_constants(
    programs: Mapping[str, ExportedProgram], dtype: torch.dtype, backend_ids: Collection[str]
) -> list[str]:
    """List the numbers in the partitions of some backends that a dtype does not hold, with the calls that read them.

    Args:
        programs: Method name -> program with delegates.
        dtype: The dtype in which the backends compute.
        backend_ids: Ids of the backends.

    Returns:
        Sentences such as "aten.add.Scalar (node add, model.py:3): other = 1e-12 is 0 in float16".
    """
    modules = [module for program in programs.values() for _, module in delegates(program)]
    return [
        sentence
        for module in modules
        if module.backend_id in backend_ids
        for sentence in _sentences(module.original_module, dtype)
    ]


def _sentences(program: ExportedProgram, dtype: torch.dtype) -> Iterator[str]:
    constants = Constants(program)
    for node in calls(program.graph_module):
        for name, value in _numbers(node, constants):
            rounded = float(torch.tensor(value, dtype=torch.float64).to(dtype))
            if value and math.isfinite(value) and not abs(rounded - value) <= LOST * abs(value):
                held = "beyond" if math.isinf(rounded) else f"{rounded:.3g} in"
                yield f"{describe(node)}: {name} = {value:.4g} is {held} {str(dtype).removeprefix('torch.')}"


def _numbers(node: Node, constants: Constants) -> Iterator[tuple[str, float]]:
    """Yield the numbers that a call reads: of a constant the largest magnitude, and the value if it has one element."""
    arguments = arguments_by_name(node) if isinstance(node.target, OpOverload) else {}
    for name, argument in arguments.items():
        for value in pytree.tree_leaves(argument):
            if isinstance(value, float):
                yield name, value
            elif isinstance(value, Node) and constants.has(value):
                tensor = constants.get(value)
                finite = tensor[tensor.isfinite()] if tensor.is_floating_point() else tensor.new_empty(0)
                if finite.numel():
                    largest = finite.flatten()[int(finite.abs().argmax())]
                    if tensor.numel() == 1 or abs(float(largest)) > 1:
                        yield value.name, float(largest)
