"""Every kernel with an ATen overload against eager PyTorch, over the samples of PyTorch's own operator database.

A bounded part of what `opinfo_table.py` walks and docs/operators.md shows.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from checker import Catalog, Checker
from native import Library
from opinfo_table import DOC, LEAST, REASONS, extent_of, listed, own_tests, read_measured, render
from opinfo_walk import Extent, entries, walk

DTYPES = (torch.float32, torch.int64, torch.bfloat16, torch.bool)
MAIN = Extent(samples=1, references=0, others=1, dtypes=DTYPES, layouts=("contiguous",))
STRIDED = Extent(samples=1, references=0, others=0, dtypes=(torch.float32,), layouts=("strided",))
VARIANT = Extent(samples=1, references=0, others=0, dtypes=(torch.float32,), layouts=("contiguous",))


def disagreements(library: Library, extent: Extent) -> list[str]:
    torch.set_num_threads(1)
    checker = Checker(Catalog(library))
    for entry in entries():
        walk(entry, checker, extent)
    assert len(checker.passed) > 150
    return [
        f"{name}: {len(found)} failed, {checker.passed[name]} passed; {found[0]}"
        for name, found in checker.failed.items()
        if name not in REASONS
    ]


@pytest.mark.parametrize("extent", [MAIN, STRIDED], ids=["contiguous", "strided"])
def test_kernels_equal_eager_on_samples_of_the_operator_database(library: Library, extent: Extent) -> None:
    found = disagreements(library, extent)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("variant", ["baseline", "avx2"])
def test_each_variant_of_the_kernels_equals_eager(library_path: Path, variant: str) -> None:
    library = Library(library_path, variant)
    if not library.available:
        pytest.skip(f"this processor cannot run {variant}")
    found = disagreements(library, VARIANT)
    assert not found, "\n".join(found)


def test_the_table_of_operators_is_up_to_date() -> None:
    text = DOC.read_text()
    assert render(read_measured(text), extent_of(text)) == text, (
        "run tests/kernels/opinfo_table.py, see docs/operators.md"
    )


def test_every_operator_is_covered() -> None:
    measured, tests = read_measured(DOC.read_text()), own_tests()
    uncovered = [n for n in listed() if measured[n].passed == 0 and not tests[n]]
    assert not uncovered


def test_nearly_all_samples_pass_and_the_rest_has_a_reason() -> None:
    for name, found in read_measured(DOC.read_text()).items():
        assert found.failed == 0 or name in REASONS, name
        assert found.passed >= LEAST * (found.passed + found.failed) or "random" in REASONS[name], name
