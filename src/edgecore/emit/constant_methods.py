"""Constant methods: methods that only return a value, such as the size of a vocabulary."""

from __future__ import annotations

import torch

from edgecore import format as fmt
from edgecore.emit.program_data import ProgramData
from edgecore.errors import CompileError
from edgecore.ir.dialect.dtypes import scalar_type


def constant_plan(name: str, value: object, program_data: ProgramData) -> fmt.ExecutionPlan:
    """Make the execution plan of a constant method, which has no inputs and no instructions.

    Args:
        name: The name of the method.
        value: A number, bool, string or tensor, or a list or tuple of these (one output for each item).
        program_data: The data of the file, to which the tensors are added.

    Raises:
        CompileError: The value has another type.
    """
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    values = [fmt.EValue(_value(name, item, program_data)) for item in items]
    return fmt.ExecutionPlan(
        name=name, values=values, outputs=list(range(len(values))), chains=[fmt.Chain()], non_const_buffer_sizes=[0]
    )


def _value(name: str, item: object, program_data: ProgramData) -> fmt.KernelTypes:
    if isinstance(item, bool):
        return fmt.Bool(item)
    if isinstance(item, int):
        return fmt.Int(item)
    if isinstance(item, float):
        return fmt.Double(item)
    if isinstance(item, str):
        return fmt.String(item)
    if isinstance(item, torch.Tensor):
        order = tuple(range(item.dim()))
        return fmt.Tensor(
            scalar_type=scalar_type(item.dtype),
            sizes=list(item.shape),
            dim_order=list(order),
            data_buffer_idx=program_data.constant(item, order),
        )
    raise CompileError(
        f"constant method {name} returns a {type(item).__name__}, which a .pte file cannot hold; use numbers, bools, "
        "strings, tensors, or a list of these"
    )
