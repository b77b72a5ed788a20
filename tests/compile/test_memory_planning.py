"""Memory plans: no two live tensors overlap, and greedy needs no more than naive."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from edgecore.errors import CompileError
from edgecore.memory import MemoryPlan, MemoryPlanningPass, TensorSpec, greedy, naive
from edgecore.memory.planning import check_plan
from edgecore.pipeline import to_edge

tensors = st.lists(
    st.tuples(st.integers(0, 4000), st.integers(0, 30), st.integers(0, 10)).map(
        lambda t: TensorSpec(torch.uint8, (t[0],), (0,), lifetime=(t[1], t[1] + t[2]), mem_id=1)
    ),
    max_size=40,
)


@given(tensors, st.sampled_from([1, 16, 64]))
def test_plans_are_valid_and_never_worse_than_naive(specs, alignment):
    upper = naive(specs, alignment)
    check_plan(MemoryPlan({1: upper}, specs))
    size = greedy(specs, alignment)
    check_plan(MemoryPlan({1: size}, specs))
    assert size <= upper
    assert all(spec.mem_offset % alignment == 0 for spec in specs)


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
    assert plan().arenas == {1: 2 * 1024}


def test_inputs_and_outputs_are_planned_on_request():
    assert plan(alloc_graph_input=True, alloc_graph_output=True).arenas == {1: 2 * 1024}
    assert plan(memory_planning_algo=naive).arenas == {1: 5 * 1024}
    assert plan(memory_planning_algo=naive, alloc_graph_input=True, alloc_graph_output=True).arenas == {1: 7 * 1024}


def test_a_subclass_spreads_tensors_over_arenas():
    class Two(MemoryPlanningPass):
        def arena_of(self, spec):
            return 1 + spec.lifetime[0] % 2

    program = to_edge(torch.export.export(Chain(), (torch.randn(256),))).exported_program()
    assert Two().run(program).sizes == [0, 1024, 1024]


def test_a_size_without_a_bound_is_refused():
    exported = torch.export.export(Chain(), (torch.randn(8),), dynamic_shapes=({0: torch.export.Dim("n")},))
    with pytest.raises(CompileError, match="without an upper bound"):
        MemoryPlanningPass().run(to_edge(exported).exported_program())
