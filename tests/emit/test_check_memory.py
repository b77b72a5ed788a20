"""The replay of a finished memory plan finds values that were overwritten."""

import pytest
import torch
from small_models import Slices
from writing_operators import ROWS, buffers_of, ops, plan_of

import edgecore
from edgecore import format as fmt
from edgecore.errors import CompileError
from edgecore.memory import MemoryPlanningPass


def test_the_replay_finds_a_lost_value_in_the_finished_plan():
    from edgecore.emit.check_memory import check_memory

    compiled = edgecore.compile(Slices().eval(), (torch.randn(8, 8),), memory=MemoryPlanningPass(reuse=False))
    plan = compiled.pte.program.execution_plan[0]
    check_memory(plan, [], {}, [])
    for value in plan.values:
        if isinstance(value.val, fmt.Tensor) and value.val.allocation_info is not None:
            value.val.allocation_info = fmt.AllocationDetails.at(1, 0)
    with pytest.raises(CompileError, match=r"instruction \d+ reads value \d+ \(\d+ bytes at offset 0 of memory 1\)"):
        check_memory(plan, [], {}, [])


def test_the_replay_knows_what_operators_write():
    from edgecore.emit.check_memory import check_memory

    def function(self, rows):
        return ops.append_sum(rows, self.cache, None, 0) + self.cache[0]

    plan = plan_of(function, ROWS, cache=torch.zeros(4, 2))
    cache = buffers_of(plan)["cache"]
    check_memory(plan, [], {}, [cache], {0: [cache]})
    beside = fmt.Tensor(
        scalar_type=fmt.ScalarType.FLOAT, sizes=[4, 2], dim_order=[0, 1], allocation_info=fmt.AllocationDetails.at(1, 0)
    )
    plan.values.append(fmt.EValue(beside))
    plan.outputs.append(len(plan.values) - 1)
    with pytest.raises(CompileError, match="instruction 0 overwrote it"):
        check_memory(plan, [], {}, [cache], {0: [cache]})
