"""Place each mutable buffer at the same offset in all methods, so that the methods can share an arena at run time."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.export import ExportedProgram

from edgecore.errors import CompileError
from edgecore.ir.dialect.dtypes import dtype_name
from edgecore.ir.program.copying import buffer_of
from edgecore.memory.planners import align
from edgecore.memory.planning import SHARED_ARENA, MemoryPlan, check_plan


def share_state(methods: Mapping[str, tuple[ExportedProgram, MemoryPlan]], alignment: int) -> list[str]:
    """Place the mutable buffers in arena 2, at the same offsets in every method.

    Arena 2 has the same size in every method, even in a method that uses only a part of it, because the runtimes give
    all methods the same block of memory (as executorch's `share_mutable_buffers` expects).

    Returns:
        The sorted qualified names of the buffers.

    Raises:
        CompileError: The dtype, shape, dim order or initial content of a buffer differs between methods.
    """
    owners: dict[str, str] = {}
    offsets: dict[str, int] = {}
    end = 0
    for method, (_, plan) in methods.items():
        for name, spec in plan.state.items():
            if name in owners:
                _compare(name, owners[name], method, methods)
                continue
            owners[name], offsets[name] = method, end
            end = align(end + spec.nbytes, alignment)
    for _, plan in methods.values():
        for name, spec in plan.state.items():
            spec.mem_offset = offsets[name]
        if owners:
            plan.arenas[SHARED_ARENA] = end
        check_plan(plan)
    return sorted(owners)


def _compare(name: str, first: str, second: str, methods: Mapping[str, tuple[ExportedProgram, MemoryPlan]]) -> None:
    a, b = (buffer_of(methods[method][0], name) for method in (first, second))
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        difference = f"it is {_text(a)} in method {first} and {_text(b)} in {second}"
    elif not torch.equal(a, b):
        difference = f"its initial content differs between method {first} and {second}"
    else:
        orders = [methods[method][1].state[name].dim_order for method in (first, second)]
        if orders[0] == orders[1]:
            return
        difference = f"its dim order is {orders[0]} in method {first} and {orders[1]} in {second}"
    raise CompileError(
        f"the methods cannot share the mutable buffer {name}: {difference}; export the methods from one module, or "
        "give the buffers different names"
    )


def _text(tensor: torch.Tensor) -> str:
    return f"{dtype_name(tensor.dtype)} {list(tensor.shape)}"
