"""The planners with ExecuTorch's arguments."""

from __future__ import annotations

import itertools

import pytest
import torch

from edgecore.compat.memory import greedy, naive
from edgecore.memory import TensorSpec


@pytest.mark.parametrize("planner", [greedy, naive])
def test_the_order_in_which_specs_are_given_does_not_change_the_plan(planner):
    specs = [TensorSpec(torch.float32, (size,), (0,), lifetime=(0, 2)) for size in (8, 2, 5)]
    plans = [
        [planner(16, order, None).spec_dict[spec].mem_offset for spec in specs]
        for order in itertools.permutations(specs)
    ]
    assert all(plan == plans[0] for plan in plans)
