"""Quantization parameters, and scaling by integers."""

import math

import numpy as np
import pytest

from edgecore_tosa.quantization.scales import Quantization, multiplier_and_shift
from edgecore_tosa.schema import DType


@pytest.mark.parametrize("bits", [16, 32])
def test_a_multiplier_and_shift_are_as_near_to_a_factor_as_their_bits_allow(bits):
    generator = np.random.default_rng(0)
    factors = [*np.exp(generator.uniform(-18, 8, 500)), 1.0, 0.5, 2.0, 1 - 2**-40, 0.999999999]
    for factor in factors:
        multiplier, shift = multiplier_and_shift(factor, bits)
        assert 2 ** (bits - 2) <= multiplier < 2 ** (bits - 1) and 2 <= shift <= 62
        assert abs(multiplier * 2.0**-shift - factor) <= factor * 2.0 ** (1 - bits)


def test_factors_near_zero_lose_bits_and_large_ones_are_refused():
    assert multiplier_and_shift(2.0**-40)[0] == 2**22
    assert multiplier_and_shift(2.0**-90) == (0, 62)
    assert multiplier_and_shift(0.0) == (0, 2)
    for wrong in (2.0**31, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="factor for RESCALE"):
            multiplier_and_shift(wrong)


def test_real_numbers_become_integers_within_the_limits():
    q = Quantization(0.5, 3, DType.INT8)
    assert [q.integer(number) for number in (0.0, 1.0, -1.0, 1e9, -math.inf, math.inf)] == [3, 5, 1, 127, -128, 127]
    np.testing.assert_array_equal(q.real(np.array([3, 5], np.int8)), [0.0, 1.0])
    by_row = Quantization((1.0, 2.0), 0, DType.INT8, axis=0)
    np.testing.assert_array_equal(by_row.real(np.array([[1, 2], [3, 4]], np.int8)), [[1.0, 2.0], [6.0, 8.0]])
