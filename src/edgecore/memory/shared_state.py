"""One place for each mutable buffer in all methods of a program, so that a runtime can give them one memory."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.export import ExportedProgram

from edgecore.errors import CompileError
from edgecore.ir.dtypes import dtype_name
from edgecore.ir.program import buffer_of
from edgecore.memory.planners import align
from edgecore.memory.planning import SHARED_ARENA, MemoryPlan, check_plan


def share_state(methods: Mapping[str, tuple[ExportedProgram, MemoryPlan]], alignment: int) -> list[str]:
    """Lay the mutable buffers out in arena 2, at the same offsets in every method; their qualified names.

    Every method gets the whole arena, also where it uses none or a part of it: that is what executorch's
    `share_mutable_buffers` does, and its runtime hands one memory to all methods.

    Raises:
        CompileError: A buffer has another dtype, shape, dim order or initial content in another method.
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
    one, other = (buffer_of(methods[method][0], name) for method in (first, second))
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        what = f"it is {_text(one)} in method {first} and {_text(other)} in {second}"
    elif not torch.equal(one, other):
        what = f"its initial content in method {first} is not that in {second}"
    else:
        orders = [methods[method][1].state[name].dim_order for method in (first, second)]
        if orders[0] == orders[1]:
            return
        what = f"its dim order is {orders[0]} in method {first} and {orders[1]} in {second}"
    raise CompileError(
        f"the methods cannot share the state {name}: {what}; take the methods from one module, or give the buffers "
        "different names"
    )


def _text(tensor: torch.Tensor) -> str:
    return f"{dtype_name(tensor.dtype)} {list(tensor.shape)}"
