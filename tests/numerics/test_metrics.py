"""Differences of values and their SQNR: numbers at the edges of dtypes, NaN, infinities, values without signal."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from edgecore.numerics.metrics import errors, has_signal, measure

nan, inf = math.nan, math.inf


@pytest.mark.parametrize(
    ("want", "got", "expected"),
    [
        ([1.0, 2.0], [1.0, nan], -inf),
        ([1.0, 2.0], [1.0, inf], -inf),
        ([1.0, nan], [1.0, 2.0], -inf),
        ([1.0, inf], [1.0, -inf], -inf),
        ([10.0, inf, nan], [9.0, inf, nan], 20.0),
        ([10.0, inf], [10.0, inf], inf),
        ([3e38, 1.0], [-3e38, 1.0], 20 * math.log10(0.5)),
        ([0.0, 0.0], [0.0, -0.0], inf),
        ([0.0, 0.0], [0.0, 1e-9], -inf),
        ([0.0, -inf], [1.0, -inf], -inf),
        ([], [], inf),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_each_edge_case_has_one_sqnr(want, got, expected, dtype):
    want, got = torch.tensor(want, dtype=dtype), torch.tensor(got, dtype=dtype)
    assert measure(want, got).sqnr == pytest.approx(expected)


def test_an_sqnr_of_half_precision_is_computed_in_float32():
    want = torch.full((4,), 6e4, dtype=torch.float16)
    assert measure(want, -want).sqnr == pytest.approx(20 * math.log10(0.5))


def test_only_finite_numbers_other_than_0_are_a_signal():
    assert has_signal(torch.tensor([0.0, -inf, 1e-30]))
    assert not any(map(has_signal, (torch.zeros(3), torch.tensor([0.0, -inf, nan]), torch.zeros(0))))


def test_a_difference_has_decibels_steps_shares_and_its_place():
    want = torch.tensor([1.0, 2.0, -4.0, 0.0])
    gap = measure(want, torch.tensor([1.0, 2.0, -4.5, 0.0]), 0.5)
    assert (gap.largest, gap.relative, gap.index, gap.steps, gap.differing) == (0.5, 0.125, (2,), 1.0, 0.25)
    assert gap.sqnr == pytest.approx(10 * math.log10(21 / 0.25))
    assert gap.cosine == pytest.approx(float(torch.cosine_similarity(want, torch.tensor([1.0, 2, -4.5, 0]), 0)))
    assert str(gap) == "19.2 dB, 25 % by 1 step"
    assert str(measure(want, want)) == "exact" and measure(want, want).index is None


def test_not_a_number_equals_itself_and_nothing_else():
    wrong, one = torch.tensor([nan, 1.0]), torch.tensor([1.0, 1.0])
    assert measure(wrong, wrong.clone()).differing == 0
    gap = measure(one, wrong)
    assert (gap.nans, gap.differing, gap.largest, gap.sqnr) == (1, 0.5, inf, -inf)
    assert measure(wrong, one).nans == 0 and measure(wrong, one).differing == 0.5
    infinite = torch.tensor([inf, 1.0])
    assert measure(one, infinite).infinities == 1
    assert measure(infinite, infinite.clone()).differing == 0
    assert measure(torch.tensor([1.0, -inf]), torch.tensor([1.0, inf])).index == (1,)


def test_the_error_of_an_element_is_0_for_equal_infinities_and_nan_and_infinite_for_one_alone():
    want = torch.tensor([1.0, nan, inf, 1.0, nan, inf, inf], dtype=torch.float16)
    got = torch.tensor([1.5, nan, inf, nan, 1.0, -inf, 1.0], dtype=torch.float16)
    assert errors(want, got).tolist() == [0.5, 0, 0, inf, inf, inf, inf]
    assert errors(torch.tensor([200], dtype=torch.uint8), torch.tensor([201], dtype=torch.uint8)).tolist() == [1]


def test_integers_that_float64_cannot_hold_are_not_equal():
    gap = measure(torch.tensor([2**60, 5]), torch.tensor([2**60 + 1, 5]))
    assert (gap.differing, gap.largest) == (0.5, 1)
    assert measure(torch.tensor([2**60]), torch.tensor([2**60])).differing == 0


@pytest.mark.parametrize(("dtype", "large"), [(torch.float32, 3e38), (torch.float64, 1e308), (torch.float64, 1e200)])
def test_the_difference_of_large_numbers_is_measured(dtype, large):
    gap = measure(torch.tensor([large, 1], dtype=dtype), torch.tensor([-large, 1], dtype=dtype))
    assert gap.sqnr == pytest.approx(-6.02, abs=0.01) and gap.cosine == pytest.approx(-1)
    assert (gap.differing, gap.nans, gap.infinities) == (0.5, 0, 0)


def test_values_without_signal_or_of_another_shape_differ_infinitely_in_relation():
    gap = measure(torch.zeros(2), torch.ones(2))
    assert (gap.sqnr, gap.relative, gap.largest) == (-inf, inf, 1)
    gap = measure(torch.ones(3), torch.ones(2))
    assert (gap.sqnr, gap.largest, gap.differing, gap.index) == (-inf, inf, 1, None)


def test_parts_of_complex_numbers_are_compared():
    gap = measure(torch.tensor([1 + 2j, 3 - 4j]), torch.tensor([1 + 2j, 3 - 3j]))
    assert (gap.largest, gap.relative, gap.index) == (1, 0.25, (1, 1))
