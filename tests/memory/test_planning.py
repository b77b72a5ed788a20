"""Memory plans: no two live tensors overlap, no planner needs more than naive, several memories."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from edgecore.errors import CompileError
from edgecore.memory import (
    Memory,
    MemoryPlan,
    MemoryPlanningPass,
    TensorSpec,
    annealed,
    best_fit,
    greedy,
    lower_bound,
    naive,
)
from edgecore.memory.planning import check_plan
from edgecore.pipeline import to_edge

tensors = st.lists(
    st.tuples(st.integers(0, 4000), st.integers(0, 30), st.integers(0, 10)).map(
        lambda t: TensorSpec(torch.uint8, (t[0],), (0,), lifetime=(t[1], t[1] + t[2]), mem_id=1)
    ),
    max_size=40,
)


@given(tensors, st.sampled_from([1, 16, 64]))
def test_plans_are_valid_and_none_is_worse_than_a_simpler_one(specs, alignment):
    sizes = []
    for planner in (naive, greedy, best_fit, annealed):
        sizes.append(planner(specs, alignment))
        check_plan(MemoryPlan({1: sizes[-1]}, specs))
        assert all(spec.mem_offset % alignment == 0 for spec in specs)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] >= lower_bound(specs, alignment)


def test_the_search_reaches_the_bound_where_no_order_does_and_always_gives_the_same_plan():
    lives = [(16, 0, 1), (32, 0, 3), (16, 2, 4), (48, 4, 6), (16, 1, 2), (32, 3, 5), (16, 5, 7), (32, 6, 8), (16, 3, 4)]
    specs = [TensorSpec(torch.uint8, (size,), (0,), lifetime=(a, b), mem_id=1) for size, a, b in lives]
    first = annealed(specs, 16), [spec.mem_offset for spec in specs]
    assert (annealed(specs, 16), [spec.mem_offset for spec in specs]) == first
    assert first[0] == lower_bound(specs, 16)


def test_a_plan_with_an_overlap_is_refused():
    specs = [TensorSpec(torch.float32, (4,), (0,), lifetime=(0, 2), mem_id=1) for _ in range(2)]
    with pytest.raises(CompileError, match="two live tensors the same memory"):
        check_plan(MemoryPlan({1: 16}, specs))


def test_a_tensor_outside_its_arena_is_refused():
    spec = TensorSpec(torch.float32, (4,), (0,), lifetime=(0, 2), mem_id=1, mem_offset=8)
    with pytest.raises(CompileError, match="outside its arena"):
        check_plan(MemoryPlan({1: 16}, [spec]))


class Chain(nn.Module):
    def forward(self, x):
        for _ in range(6):
            x = torch.sin(x)
        return x


def plan(**options):
    program = to_edge(torch.export.export(Chain(), (torch.randn(256),))).exported_program()
    return MemoryPlanningPass(**options).run(program)


def test_dead_tensors_give_way():
    assert plan(reuse=False).arenas == {1: 2 * 1024}


def test_an_elementwise_result_is_computed_in_place():
    assert plan().arenas == {1: 1024}


def test_inputs_and_outputs_are_planned_on_request():
    everything = {"alloc_graph_input": True, "alloc_graph_output": True, "reuse": False}
    assert plan(**everything).arenas == {1: 2 * 1024}
    assert plan(memory_planning_algo=naive, reuse=False).arenas == {1: 5 * 1024}
    assert plan(memory_planning_algo=naive, **everything).arenas == {1: 7 * 1024}


def test_a_subclass_spreads_tensors_over_arenas():
    class Two(MemoryPlanningPass):
        def arena_of(self, spec):
            return 1 + spec.lifetime[0] % 2

    program = to_edge(torch.export.export(Chain(), (torch.randn(256),))).exported_program()
    assert Two().run(program).sizes == [0, 1024, 1024]


class Wide(nn.Module):
    """Two tensors of 1024 bytes, one of which lives long and is read often, and one of 4096."""

    def forward(self, x):
        often = x.cumsum(0)
        wide = torch.cat([often, often, often, often]).cumsum(0)
        return torch.cat([often.cumsum(0), wide, often.cumsum(0)]).cumsum(0)


def wide_plan(*memories):
    program = to_edge(torch.export.export(Wide(), (torch.randn(256),))).exported_program()
    return MemoryPlanningPass(memories=memories).run(program)


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
    program = to_edge(torch.export.export(Chain(), (torch.randn(256),))).exported_program()
    with pytest.raises(CompileError, match="arena 2 for the state"):
        MemoryPlanningPass(memories=[Memory("sram")], share_mutable_buffers=True).run(program)


def test_a_size_without_a_bound_is_refused():
    exported = torch.export.export(Chain(), (torch.randn(8),), dynamic_shapes=({0: torch.export.Dim("n")},))
    with pytest.raises(CompileError, match="without an upper bound"):
        MemoryPlanningPass().run(to_edge(exported).exported_program())
