"""Several memories of different speed and size: where the planner places each tensor."""

import pytest
import torch
from torch import nn

from edgecore.errors import CompileError
from edgecore.memory import Memory, MemoryPlanningPass
from edgecore.pipeline import to_edge


class Wide(nn.Module):
    """Two tensors of 1024 bytes, one of which lives long and is read often, and one of 4096."""

    def forward(self, x):
        often = x.cumsum(0)
        wide = torch.cat([often, often, often, often]).cumsum(0)
        return torch.cat([often.cumsum(0), wide, often.cumsum(0)]).cumsum(0)


def wide_plan(*memories):
    program = to_edge(torch.export.export(Wide(), (torch.randn(256),))).exported_program()
    return MemoryPlanningPass(memories=memories).plan(program)


def test_the_most_used_tensors_go_to_the_cheapest_memory_where_they_fit():
    found = wide_plan(Memory("dram", cost=10), Memory("sram", size=1024, cost=1))
    most = max(found.specs, key=lambda spec: spec.lifetime[1] - spec.lifetime[0] if spec.nbytes == 1024 else 0)
    assert (most.mem_id, most.nbytes) == (2, 1024)
    assert found.arenas[2] <= 1024 and found.arenas[1] >= 4096
    assert found.names == {1: "dram", 2: "sram"}


def test_memories_that_are_too_small_are_refused_with_numbers():
    with pytest.raises(CompileError, match=r"the memories are too small: a tensor of 4096 bytes.* sram 2048 bytes"):
        wide_plan(Memory("sram", size=2048))


def test_memories_do_not_go_with_shared_buffers():
    program = to_edge(torch.export.export(nn.Sigmoid(), (torch.randn(256),))).exported_program()
    with pytest.raises(CompileError, match="reserves arena 2 for mutable buffers"):
        MemoryPlanningPass(memories=[Memory("sram")], share_mutable_buffers=True).plan(program)
