"""The SQNR of two norms, and its text."""

from __future__ import annotations

import math

import pytest

from edgecore.numerics.decibels import LOWEST, decibels, finite_decibels, ratio_in_decibels


@pytest.mark.parametrize(
    ("signal", "noise", "text"),
    [(10, 1, "20.0 dB"), (1, 0, "exact"), (0, 0, "exact"), (0, 1, "-inf dB"), (1, 1 + 1e-5, "0.0 dB")],
)
def test_each_edge_case_has_one_text(signal, noise, text):
    assert decibels(ratio_in_decibels(signal, noise)) == text


def test_files_get_finite_numbers_for_all_but_exact_values():
    assert [finite_decibels(value) for value in (math.inf, 12.5, -math.inf)] == [None, 12.5, LOWEST]
