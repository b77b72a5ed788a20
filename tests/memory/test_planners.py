"""Planners: no two live tensors overlap, and no planner needs more memory than a simpler one."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from edgecore.memory import (
    MemoryPlan,
    TensorSpec,
    annealed,
    best_fit,
    greedy,
    lower_bound,
    naive,
)
from edgecore.memory.planning import check_plan

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
