"""The page of special values lists every difference from PyTorch; with EDGECORE_WRITE_PAGES=1 this test writes it."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
import torch

import edgecore
from edgecore.conformance.special_values import measure as special_values
from edgecore_xnnpack.compiler import XnnpackCompiler

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the page is about processors of x86-64")

PAGE = Path(__file__).parents[1] / "docs" / "special-values.md"
TABLES = {
    "avx2": ["zen", "avxvnni", "avxvnniint8", "avx512f", "avx512skx", "avx512vbmi", "avx512vnni", "zen4", "icelake", "zen5",
             "avx512fp16", "amx", "avx256"],
    "fma3": ["avx", "f16c"],
    "sse4_1": [],
    "sse2": ["ssse3"],
}  # fmt: skip
"""The kernels that the page has a table of, and those that give the same results."""


def test_the_page_lists_every_difference_from_pytorch():
    kernels = XnnpackCompiler().configurations()
    special_values.check_page(
        PAGE, special_values.measure("xnnpack", configurations={name: kernels[name] for name in TABLES})
    )


@pytest.mark.full
def test_other_kernels_give_the_results_of_one_of_the_tables():
    kernels = XnnpackCompiler().configurations()
    assert sorted(kernels) == sorted([*TABLES, *(name for same in TABLES.values() for name in same)])
    measured = special_values.measure("xnnpack", configurations=kernels)
    for table, others in TABLES.items():
        for name in [name for name in others if name not in measured.refused]:
            assert measured.differences[name] == measured.differences[table], f"{name} differs from {table}"


def test_an_infinity_equals_the_largest_number_if_both_operands_are_computed():
    class Less(torch.nn.Module):
        def forward(self, x, y):
            return torch.where(-x < -y, 1 + y * 0, 2 + y * 0)

    x, y = torch.tensor([torch.inf, 2.0, 1.0]), torch.tensor([torch.finfo(torch.float32).max, 1.0, 2.0])
    assert Less()(x, y).tolist() == [1, 1, 2]
    program = edgecore.compile(Less().eval(), (x, y), backends=[edgecore.Backend("xnnpack", required=True)])
    assert edgecore.load(program.buffer).forward(x, y).tolist() == [2, 1, 2]


def test_the_logarithm_of_numbers_above_2_4e38_is_88_4_or_infinity():
    class Log(torch.nn.Module):
        def forward(self, x):
            return torch.log(x)

    x = torch.tensor([2.3e38, 2.5e38, 3.4e38])
    program = edgecore.compile(Log().eval(), (x,), backends=[edgecore.Backend("xnnpack", required=True)])
    first, *others = edgecore.load(program.buffer).forward(x).tolist()
    assert first == pytest.approx(88.3311) and others in ([torch.inf] * 2, pytest.approx([88.4] * 2, abs=0.05))
