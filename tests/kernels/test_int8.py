"""Arguments that the kernels on int8 values refuse; `test_integers.py` compares their results."""

from __future__ import annotations

import pytest
import torch
from int8_cases import CASES, random_int8
from native import KernelError

from edgecore.ir.operators import integer_operators  # noqa: F401  (registers the operators)


@pytest.mark.parametrize(
    ("operator", "position", "value", "message"),
    [
        ("int8_convolution", 1, random_int8(16, 2, 3, 3), "groups and the channels"),
        ("int8_convolution", 2, torch.zeros(3, 15, dtype=torch.int32), "for each output channel"),
        ("int8_convolution", 2, torch.zeros(3, 16, dtype=torch.int32), "multipliers must be in"),
        ("int8_convolution", 3, [0, 1], "must be positive"),
        ("int8_convolution", 4, [1 << 40, 1], "too large"),
        ("int8_convolution", 4, [-20, 1], "kernel is larger than"),
        ("int8_convolution", 5, [1], "an entry for each spatial dim"),
        ("int8_convolution", 8, 0, "groups and the channels"),
        ("int8_convolution", 9, 300, "argument 9 is 300, not in [-128, 127]"),
        ("int8_convolution", 11, 120, "lower limit"),
        ("int8_linear", 1, random_int8(5, 31), "must have the same size"),
        ("int8_table", 1, random_int8(255), "256 entries"),
        ("int8_add", 4, 1 << 22, "argument 4"),
        ("int8_mul", 5, 31, "argument 5"),
        ("int8_mean", 1, 9, "number of dims"),
        ("int8_softmax", 1, torch.zeros(255, dtype=torch.int32), "256 entries"),
        ("int8_softmax", 1, torch.zeros(256, dtype=torch.int32), "exponential of 0"),
        ("int8_matmul", 1, random_int8(2, 1), "do not match"),
        ("int8_matmul", 1, random_int8(1), "do not match"),
        ("int8_average", 1, torch.tensor([[0], [12], [1]], dtype=torch.int32), "not within the input"),
        ("int8_average", 2, torch.tensor([[0], [1], [0]], dtype=torch.int32), "divisor is not positive"),
        ("int8_average", 2, torch.tensor([[0], [1], [12]], dtype=torch.int32), "no factor for the largest"),
        ("int8_average", 3, torch.zeros(2, 45, dtype=torch.int32), "multipliers must be in"),
        ("int8_softmax", 1, (2**16 * (1 - torch.arange(256)).sign()).int(), "must be in [0, 2^16]"),
    ],
)
def test_wrong_arguments_of_integer_kernels_are_errors(build, operator, position, value, message):
    first = {"int8_convolution": "convolution: plain"}
    name = first.get(operator) or next(name for name, (one, _) in CASES.items() if one == operator)
    if operator == "int8_linear":
        name = "linear: 7 32 5"
    arguments = list(CASES[name][1])
    arguments[position] = value
    with pytest.raises(KernelError) as caught:
        build.call(f"edgecore::{operator}.out", *arguments, torch.zeros(1, dtype=torch.int8))
    assert message in caught.value.text
