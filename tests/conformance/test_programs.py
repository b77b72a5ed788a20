"""The comparison of results: the limits and the sentences of a failure."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from edgecore.conformance.programs import difference, error_by_norm

nan, inf = math.nan, math.inf


def compared(got, want, dtype=torch.float32, tolerance=None, recipe=None, step=None):
    subject = SimpleNamespace(tolerance=tolerance, cache={"integer recipe": recipe})
    return difference(subject, torch.tensor(got, dtype=dtype), torch.tensor(want, dtype=dtype), step)


def test_a_difference_is_a_sentence_with_the_first_element_beyond_the_limit():
    assert compared([1.0, 2.00019], [1.0, 2.0]) == ""
    assert compared([[1.0, 2.00021], [1.0, 9.0]], [[1.0, 2.0], [1.0, 2.0]]) == (
        "2 of 4 values differ by more than 0.0001 of the largest, at (0, 1) 2.00021 instead of 2"
    )
    assert compared([1, 2, 2**60 + 1], [1, 2, 2**60], torch.int64).startswith("1 of 3 values differ, at (2,) 1152921")
    assert compared([True], [False], torch.bool) == "1 of 1 values differ, at (0,) True instead of False"
    subject = SimpleNamespace(tolerance=None, cache={})
    assert difference(subject, torch.zeros(2), torch.zeros(3)) == "is float32[2] instead of float32[3]"
    assert compared([], []) == ""


def test_only_equal_infinities_and_nan_agree():
    assert compared([nan, inf, -inf, 1.0], [nan, inf, -inf, 1.0]) == ""
    for got, want in (([nan, 1.0], [1.0, 1.0]), ([1.0, 1.0], [nan, 1.0]), ([inf, 1.0], [-inf, 1.0]),
                      ([1.0, 1.0], [inf, 1.0]), ([inf, 1.0], [1.0, 1.0])):  # fmt: skip
        assert compared(got, want).startswith("1 of 2 values differ by more than 0.0001 of the largest, at (0,)")
    assert compared([5e-7], [inf]) and compared([0.0], [9e-11]) == ""
    assert compared([3e38, 1.0], [-3e38, 1.0])


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ({"dtype": torch.float64}, 1e-7),
        ({}, 1e-4),
        ({"tolerance": 0.25}, 0.25),
        ({"tolerance": 1e-9}, 1e-4),
        ({"recipe": "int8"}, 4 / 255),
        ({"step": 0.5}, 2.01 * 0.5 / 8),
    ],
)
def test_the_limit_follows_from_dtype_tolerance_recipe_and_step(settings, limit):
    assert not compared([8.0, 8 * 0.999 * limit], [8.0, 0.0], **settings)
    assert f"more than {limit:g} of the largest" in compared([8.0, 8 * 1.001 * limit], [8.0, 0.0], **settings)


def test_the_error_by_norm_is_relative_to_what_is_expected():
    want = torch.tensor([3.0, 4.0])
    assert error_by_norm(torch.tensor([3.0, 4.5]), want) == pytest.approx(0.1)
    assert error_by_norm(want, want) == 0
    assert not error_by_norm(torch.tensor([3.0, nan]), want) < 0.25
