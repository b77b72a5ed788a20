"""The kernels on integers give the same bits as the arithmetic of edgecore.ir.operators.integer_operators, everywhere."""

from __future__ import annotations

import int8_cases
import int16_cases
import int16_layer_cases
import pytest
import torch
from emulated_library import EmulatedLibrary

from edgecore.ir.operators import integer_operators  # noqa: F401  (registers the operators)

CASES = {
    f"{cases.__name__}: {name}": call
    for cases in (int8_cases, int16_cases, int16_layer_cases)
    for name, call in cases.CASES.items()
}


def check_call(library, name):
    operator, arguments = CASES[name]
    expected = getattr(torch.ops.edgecore, operator)(*arguments)
    out = torch.zeros(expected.shape, dtype=expected.dtype)
    library.call(f"edgecore::{operator}.out", *arguments, out)
    assert torch.equal(out, expected), name


@pytest.mark.parametrize("name", CASES)
def test_kernels_on_integers_give_the_bits_of_the_reference(build, name):
    check_call(build, name)


@pytest.mark.slow
def test_kernels_of_arm_on_integers_give_the_same_bits(arm64_program):
    with EmulatedLibrary(arm64_program, "cortex-a53") as library:
        for name in CASES:
            check_call(library, name)


@pytest.mark.parametrize(
    ("operator", "cases"), [("int8_convolution", int8_cases), ("int16_convolution", int16_layer_cases)]
)
def test_convolutions_on_integers_read_strided_values(build, operator, cases):
    input, *rest = cases.convolution_arguments("plain")
    expected = getattr(torch.ops.edgecore, operator)(input, *rest)
    strided = input.to(memory_format=torch.channels_last)
    out = torch.zeros(expected.shape, dtype=expected.dtype).to(memory_format=torch.channels_last)
    build.call(f"edgecore::{operator}.out", strided, *rest, out)
    assert torch.equal(out, expected)
