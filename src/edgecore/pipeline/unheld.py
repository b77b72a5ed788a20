"""Find constants that a backend's low precision cannot represent, such as 1e-12 or float32's `finfo.min` in float16."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.errors import PrecisionWarning
from edgecore.ir.delegate import delegates
from edgecore.ir.graph import calls, describe
from edgecore.ir.op_args import arguments_by_name
from edgecore.ir.operators.attention import ATTENTION, reaches_softmax
from edgecore.ir.program.constants import Constants
from edgecore.ir.torch_compat import OpOverload, pytree

LOST = 0.1
"""The relative rounding error above which a number counts as not representable."""


_LISTED = 3


@dataclass(frozen=True)
class Unheld:
    """A number that a dtype cannot represent.

    Attributes:
        call: The call that reads the number.
        number: The number, and its value in the dtype.
        hides: True for a large number in a mask, which makes a softmax return 0 for the masked elements. The largest
            number of the dtype has the same effect, so the result does not change.
    """

    call: str
    number: str
    hides: bool

    def __str__(self) -> str:
        return f"{self.call}: {self.number}"


def unheld_constants(
    programs: Mapping[str, ExportedProgram], dtype: torch.dtype, backend_ids: Collection[str]
) -> list[Unheld]:
    """List the numbers that calls in the partitions of some backends read, but that a dtype cannot represent.

    Args:
        programs: Method name -> program with delegates.
        dtype: The dtype in which the backends compute.
        backend_ids: Ids of the backends.

    Returns:
        The numbers; as text "aten.add.Scalar (node add, model.py:3): other = 1e-12 is 0 in float16".
    """
    modules = [module for program in programs.values() for _, module in delegates(program)]
    return [
        constant
        for module in modules
        if module.backend_id in backend_ids
        for constant in _unheld(module.original_module, dtype)
    ]


def warn_of_unheld(constants: Sequence[Unheld], dtype: torch.dtype, stacklevel: int) -> None:
    """Warn of the numbers that `dtype` cannot represent, except numbers that only mask elements of a softmax."""
    texts = [str(constant) for constant in constants if not constant.hides]
    if texts:
        more = [f"{len(texts) - _LISTED} more, see the report"] if len(texts) > _LISTED else []
        name, info = str(dtype).removeprefix("torch."), torch.finfo(dtype)
        warnings.warn(
            f"{name} does not hold {len(texts)} number{'s' * (len(texts) > 1)} of the model, whose results may be "
            f"wrong: {'; '.join([*texts[:_LISTED], *more])}; write numbers from {info.tiny:.1g} to {info.max:g}, or "
            "compile in float32",
            PrecisionWarning,
            stacklevel=stacklevel + 1,
        )


def _unheld(program: ExportedProgram, dtype: torch.dtype) -> Iterator[Unheld]:
    constants = Constants(program)
    for node in calls(program.graph_module):
        for name, value in _numbers(node, constants):
            rounded = float(torch.tensor(value, dtype=torch.float64).to(dtype))
            if value and math.isfinite(value) and not abs(rounded - value) <= LOST * abs(value):
                held = "beyond" if math.isinf(rounded) else f"{rounded:.3g} in"
                hides = math.isinf(rounded) and (reaches_softmax(node) or node.target in ATTENTION)
                text = f"{name} = {value:.4g} is {held} {str(dtype).removeprefix('torch.')}"
                yield Unheld(describe(node), text, hides)


def _numbers(node: Node, constants: Constants) -> Iterator[tuple[str, float]]:
    """Yield the numbers that a call reads. Of a constant tensor, yield its only element, or its largest if above 1."""
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
