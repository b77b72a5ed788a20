"""The reference arithmetic of the integer operators; tests/kernels compares the operators with the kernels."""

from __future__ import annotations

import pytest
import torch

from edgecore.ir.operators.integer_operators import INT8, INT16


def test_factors_of_int8_are_the_nearest_fixed_point_numbers():
    assert INT8.fixed_point(1.0) == (2**30, 1)
    assert INT8.fixed_point(0.75) == (3 << 29, 0)
    assert INT8.fixed_point(1 - 2**-40) == (2**30, 1)  # the mantissa rounds up to the next power of two
    assert INT8.fixed_point(1e-30) == (2**30, -31)
    assert INT8.fixed_point(2.0**30 - 1) == (2**31 - 2, 30)
    assert INT8.fixed_point(2.0**30) is None


def test_factors_of_int16_are_the_nearest_fixed_point_numbers():
    assert INT16.fixed_point(1.0) == (2**15, 15)
    assert INT16.fixed_point(0.75) == (3 << 14, 16)
    assert INT16.fixed_point(1 - 2**-20) == (2**15, 15)  # the mantissa rounds up to the next power of two
    assert INT16.fixed_point(1e-30) == (2**15, 62)
    assert INT16.fixed_point(2.0**15 - 1) == (2**16 - 2, 1)
    assert INT16.fixed_point(2.0**15) is None


def test_requantization_of_int8_rounds_half_up_twice_and_saturates():
    values = torch.tensor([-3, -2, -1, 0, 1, 2, 3, 2**31 - 1, -(2**31)])
    half = INT8.requantize(values, 2**30, 0)
    assert half.tolist() == [-1, -1, 0, 0, 1, 1, 2, 2**30, -(2**30)]
    assert INT8.requantize(values, 2**30, 8).tolist()[-2:] == [2**30, -(2**30)]
    assert INT8.requantize(values, 2**30, -31).tolist() == [0] * 7 + [1, 0]  # rounded twice


def test_requantization_of_int16_rounds_half_up_once():
    values = torch.tensor([-3, -2, -1, 0, 1, 2, 3, 2**46 - 1, -(2**46) + 1])
    half = INT16.requantize(values, 2**15, 16)
    assert half.tolist() == [-1, -1, 0, 0, 1, 1, 2, 2**45, -(2**45) + 1]
    assert INT16.requantize(values, 2**15, 61).tolist() == [0] * 7 + [1, -1]
    assert INT16.requantize(values, 2**15, torch.tensor(62)).tolist() == [0] * 9  # of nearly 0.5


@pytest.mark.parametrize("arithmetic", [INT8, INT16])
def test_operators_name_zero_points_only_if_their_values_have_them(arithmetic):
    schema = getattr(torch.ops.edgecore, f"{arithmetic.prefix}_mul").default._schema
    zero_points = [argument.name for argument in schema.arguments if argument.name.endswith("zero_point")]
    assert zero_points == (["a_zero_point", "b_zero_point", "zero_point"] if arithmetic.has_zero_points else [])
