"""Limits of the errors of operators: masks, ties, saturation, NaN."""

from __future__ import annotations

import math

import torch

from edgecore.devtools.comparison.judgement import Judgement, judge
from edgecore.numerics.metrics import measure


def judged(want, got, *, step=None, unrounded=None, moved=(), steps=0) -> Judgement:
    gap = measure(want, got, step)
    return judge(
        gap, want, got, step=step, unrounded=unrounded, tolerance=None, computes_in=torch.float32, steps=steps,
        moved=moved,
    )  # fmt: skip


def test_the_values_of_a_mask_hide_no_error():
    """A thousandth of the mask's value would allow any error of the others."""
    for mask in (-1e4, -1e9, torch.finfo(torch.float32).min, -math.inf):
        want = torch.tensor([1.0, 2.0, 3.0, mask])
        assert judged(want, torch.tensor([1.0, 2.0, 3.5, mask])).ratio > 1, mask
        assert judged(want, torch.tensor([1.0, 2.0, 3.0001, mask])).ratio < 1, mask


def test_a_large_value_that_is_no_mask_counts():
    assert judged(torch.tensor([0.5, 20000.0]), torch.tensor([0.51, 20000.01])).ratio < 1


def test_a_tie_at_the_largest_value_is_a_tie():
    """The largest value need not be saturated."""
    want, exact = torch.tensor([1.0, 2.0, 10.0]), torch.tensor([1.0, 2.0, 10.49])
    assert judged(want, torch.tensor([1.0, 2.0, 11.0]), step=1.0, unrounded=exact).ratio < 1
    assert judged(want, torch.tensor([1.0, 2.0, 12.0]), step=1.0, unrounded=exact).ratio > 1


def test_a_device_that_rounds_more_than_once_may_be_off_by_its_steps():
    exact = torch.linspace(-50, 50, 1001)
    want = exact.round()
    assert judged(want, want + 1, step=1.0, unrounded=exact).ratio > 1
    assert judged(want, want + 1, step=1.0, unrounded=exact, steps=1).ratio < 1
    assert judged(want, want + 2, step=1.0, unrounded=exact, steps=1).ratio > 1


def test_a_saturated_value_is_compared_with_the_limit():
    want, exact = torch.tensor([1.0, 127.0]), torch.tensor([1.0, 900.0])
    assert judged(want, torch.tensor([1.0, 124.0]), step=1.0, unrounded=exact).ratio > 1


def test_elements_that_should_be_nan_or_infinite_but_are_not_are_wrong():
    """Also if noise makes the expected value infinite, which explains no error of others."""
    moved = [torch.tensor([math.inf, 2.0])]
    for value in (math.nan, math.inf):
        judgement = judged(torch.tensor([value, 2.0]), torch.tensor([1.0, 2.0]), moved=moved)
        assert judgement.ratio > 1 and "NaN or infinite" in judgement.why
    assert judged(torch.tensor([math.nan, 2.0]), torch.tensor([math.nan, 2.0])).ratio == 0


def test_a_limit_that_noise_makes_infinite_decides_nothing():
    moved = [torch.tensor([math.inf, 2.0])]
    for step, unrounded in ((None, None), (1.0, torch.tensor([5.0, 2.0]))):
        want, got = torch.tensor([5.0, 2.0]), torch.tensor([5.0, 9.0])
        judgement = judged(want, got, moved=moved, step=step, unrounded=unrounded)
        assert judgement.ratio == 1 and "decides nothing" in judgement.why


def test_other_elements_of_a_quantized_value_with_nan_are_judged():
    want, exact = torch.tensor([0.0, 10.0]), torch.tensor([math.nan, 10.0])
    assert judged(want, torch.tensor([0.0, 20.0]), step=1.0, unrounded=exact).ratio > 1


def test_another_shape_is_wrong_in_a_sentence():
    judgement = judged(torch.ones(3), torch.ones(2))
    assert judgement.ratio > 1 and judgement.why == "the shape [2] instead of [3]"
