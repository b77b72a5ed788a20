"""The planners with ExecuTorch's arguments."""

from __future__ import annotations

import itertools

import pytest
import torch

from edgecore.executorch.exir.memory import MemoryPlanningAlgorithmSuite, greedy, naive
from edgecore.memory import TensorSpec

SIZES, LIFETIMES = (8, 2, 5, 30), ((0, 2), (1, 3), (2, 5), (6, 7))


def made(*sizes, lifetimes=LIFETIMES):
    return [
        TensorSpec(torch.float32, (size,), (0,), lifetime=lifetime)
        for size, lifetime in zip(sizes, lifetimes, strict=False)
    ]


@pytest.fixture
def graph_module():
    return torch.export.export(torch.nn.Tanh(), (torch.ones(1),)).graph_module


@pytest.mark.parametrize("planner", [greedy, naive])
def test_the_order_in_which_specs_are_given_does_not_change_the_plan(planner):
    specs = made(8, 2, 5, lifetimes=[(0, 2)] * 3)
    plans = [
        [planner(16, order, None).spec_dict[spec].mem_offset for spec in specs]
        for order in itertools.permutations(specs)
    ]
    assert all(plan == plans[0] for plan in plans)


@pytest.mark.parametrize("planner", [greedy, naive])
def test_planners_leave_the_bytes_free_that_inputs_of_an_arena_need(planner, graph_module):
    graph_module.input_mem_buffer_sizes = [0, 100]
    specs = made(8, 2)
    plan = planner(alignment=16, specs=specs, graph_module=graph_module, graph_signature=None, extra_padding=8)
    assert min(plan.spec_dict[spec].mem_offset for spec in specs) == 112
    without = planner(16, specs, None)
    assert plan.bufsizes[1] == without.bufsizes[1] + 112 + 8


@pytest.mark.parametrize("padding", [0, 8, 100])
def test_a_suite_takes_the_smallest_arenas_which_are_as_large_as_those_of_executorch(padding, graph_module):
    specs = made(*SIZES)
    suite = MemoryPlanningAlgorithmSuite([naive, greedy])
    sizes = suite(alignment=16, specs=specs, graph_module=graph_module, graph_signature=None, extra_padding=padding)
    assert sizes == greedy(16, made(*SIZES), graph_module, None, padding).bufsizes == [0, 128 + padding]
    assert [(spec.mem_id, spec.mem_offset % 16) for spec in specs] == [(1, 0)] * 4
    planning = pytest.importorskip("executorch.exir.memory_planning")
    from executorch.exir.tensor import TensorSpec as SpecOfExecutorch

    theirs = [SpecOfExecutorch(torch.float32, torch.Size([size])) for size in SIZES]
    for spec, lifetime in zip(theirs, LIFETIMES, strict=True):
        spec.lifetime = list(lifetime)
        spec.realign(16)
    suite = planning.MemoryPlanningAlgorithmSuite([planning.greedy])
    assert suite(16, set(theirs), graph_module, None, padding) == sizes
