"""The kernels on int16 values that are no layers: strided values, and refused arguments; see `test_integers.py`."""

from __future__ import annotations

import pytest
import torch
from int16_cases import CASES, FULL, random_int16, windows_of
from native import KernelError


@pytest.mark.parametrize("operator", ["int16_add", "int16_table", "int16_matmul"])
def test_int16_kernels_read_and_write_strided_values(build, operator):
    arguments = [random_int16(9, 9).T, random_int16(9, 9, seed=1).T, *CASES["mul: (3, 67) (3, 67)"][1][2:]]
    if operator == "int16_table":
        arguments[1:] = [random_int16(513).int(), *FULL]
    elif operator == "int16_add":
        arguments[2:] = [2**20, 2**19, 20, *FULL]
    out = torch.zeros(9, 9, dtype=torch.int16).T
    build.call(f"edgecore::{operator}.out", *arguments, out)
    assert torch.equal(out, getattr(torch.ops.edgecore, operator)(*arguments))


@pytest.mark.parametrize(
    ("case", "position", "value", "message"),
    [
        ("table: steep", 0, torch.zeros(1, dtype=torch.int8), "values must be int16"),
        ("table: steep", 1, torch.zeros(512, dtype=torch.int32), "2^bits + 1 entries"),
        ("table: steep", 1, torch.zeros(257, dtype=torch.int32), "bits from 9 to 16"),
        ("table: steep", 1, random_int16(513), "must be int32"),
        ("table: steep", 3, -32769, "argument 3"),
        ("table: steep", 4, torch.zeros(1, dtype=torch.int8), "out must be int16"),
        ("rescale: (32768, 1)", 1, 2**15 - 1, "argument 1 is 32767, not in [32768, 65535]"),
        ("rescale: (32768, 1)", 2, 63, "argument 2"),
        ("rescale: (32768, 1)", 4, 2**15, "argument 4"),
        ("rescale: (32768, 1)", 4, -20001, "lower limit"),
        ("add: shift 1", 1, random_int16(499), "broadcast"),
        ("add: shift 1", 2, 2**30 + 1, "argument 2"),
        ("add: shift 1", 4, 0, "argument 4"),
        ("mul: (32768, 1)", 2, 2**16, "argument 2"),
        ("mul: (32768, 1)", 6, torch.zeros(1, dtype=torch.int8), "out must be int16"),
        ("mean: (5, 9)", 1, 3, "number of dims"),
        ("mean: (5, 9)", 0, random_int16(5, 0), "over 1 to"),
        ("mean: (5, 9)", 4, 0, "argument 4"),
        ("softmax: (3, 67)", 0, random_int16(1, 2**15), "over 1 to"),
        ("softmax: (3, 67)", 1, torch.zeros(256, dtype=torch.int32), "512 entries"),
        ("softmax: (1,)", 1, 2**30 - torch.arange(512, dtype=torch.int32), "exponential of 0"),
        ("softmax: (1,)", 1, (2**30 * (1 - torch.arange(512) % 256).sign()).int(), "must be in [0, 2^30]"),
        ("matmul: (5, 33) (33, 7)", 1, random_int16(32, 7), "do not match"),
        ("matmul: (5, 33) (33, 7)", 1, random_int16(33), "do not match"),
        ("matmul: (3, 9, 17) (3, 17, 40)", 1, random_int16(2, 17, 40), "do not match"),
        ("average", 0, random_int16(3, 11, 9), "4 dims"),
        ("average", 1, windows_of((0, 12, 1)), "not within the input"),
        ("average", 2, windows_of((0, 1, 12)), "no factor for the largest"),
        ("average", 3, torch.full((2, 45), 2**16, dtype=torch.int32), "multipliers must be in [2^15, 2^16)"),
    ],
)
def test_wrong_arguments_of_int16_kernels_are_errors(build, case, position, value, message):
    operator, arguments = CASES[case]
    arguments = [*arguments, torch.zeros(1, dtype=torch.int16)]
    arguments[position] = value
    with pytest.raises(KernelError) as caught:
        build.call(f"edgecore::{operator}.out", *arguments)
    assert message in caught.value.text
