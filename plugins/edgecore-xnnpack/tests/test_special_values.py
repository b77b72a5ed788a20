"""The page of special values lists every difference from PyTorch; with EDGECORE_WRITE_PAGES=1 this test writes it."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from edgecore.conformance import special_values
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
