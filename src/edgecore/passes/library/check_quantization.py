"""Refuse scales that are infinite, NaN or too small, and zero points outside their integer type."""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgecore.errors import CompileError
from edgecore.ir.graph import all_calls, describe
from edgecore.ir.program.constants import Constants
from edgecore.ir.program.lazy_constants import is_lazy
from edgecore.passes.quantized import parameters_of

SMALLEST = torch.finfo(torch.float32).tiny
"""The smallest scale other than 0: the reciprocal of a smaller scale is infinite or loses digits."""


def check_quantization(program: ExportedProgram) -> ExportedProgram:
    """Check those scales and zero points of a program that are known at compile time; return the program unchanged.

    A scale must be 0 or a normal float32 number; an integer zero point must be a value of the integer type. Zero points
    in floating point, as in embedding tables, may be any number.

    Raises:
        CompileError: A scale or a zero point breaks this rule.
    """
    constants = Constants(program)
    for node in all_calls(program.graph_module):
        parameters = parameters_of(node)
        if parameters is None:
            continue
        scales = _known(parameters.scale, constants)
        if scales is not None:
            is_subnormal = (scales.abs() < SMALLEST) & (scales != 0)
            _refuse(
                node, "scale", scales, ~torch.isfinite(scales) | is_subnormal, "0 or a finite, normal float32 number"
            )
        zeros = _known(parameters.zero_point, constants)
        if zeros is not None and not (zeros.is_floating_point() or parameters.dtype.is_floating_point):
            limits = torch.iinfo(parameters.dtype)
            is_outside = (zeros < limits.min) | (zeros > limits.max)
            _refuse(
                node, "zero point", zeros, is_outside, f"from {limits.min} to {limits.max}, as {parameters.dtype} is"
            )
    return program


def _known(value: float | Node, constants: Constants) -> torch.Tensor | None:
    """Return a scale or zero point as a tensor of rank 1; None if it is computed at run time or not loaded yet."""
    if not isinstance(value, Node):
        return torch.tensor([value], dtype=torch.float64 if isinstance(value, float) else None)
    if not constants.has(value) or is_lazy(constants.stored(value)):
        return None
    return constants.get(value).reshape(-1)


def _refuse(node: Node, name: str, values: torch.Tensor, is_wrong: torch.Tensor, wanted: str) -> None:
    if is_wrong.any():
        index = int(is_wrong.nonzero()[0])
        channel = f" of channel {index}" if values.numel() > 1 else ""
        raise CompileError(
            f"{describe(node)}: the {name}{channel} is {values[index].item():g}, but must be {wanted}; "
            "calibrate the model with data that is finite, or correct the quantized model"
        )
