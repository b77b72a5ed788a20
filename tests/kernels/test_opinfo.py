"""Compare every kernel of an ATen overload with eager PyTorch, on samples of PyTorch's operator database.

The tests walk a small part of the samples; `opinfo_table.py` walks all of them and writes docs/operators.md.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from comparisons import disagreements
from native import Library
from opinfo_table import DOC, MIN_PASS_RATE, REASONS, extent_of, operators, own_tests, read_measured, render
from opinfo_walk import Extent

DTYPES = (torch.float32, torch.int64, torch.bfloat16, torch.bool)
MAIN = Extent(samples=1, references=0, others=1, dtypes=DTYPES, layouts=("contiguous",))
STRIDED = Extent(samples=1, references=0, others=0, dtypes=(torch.float32,), layouts=("strided",))
VARIANT = Extent(samples=1, references=0, others=0, dtypes=(torch.float32,), layouts=("contiguous",))


@pytest.mark.parametrize(
    "extent",
    [
        pytest.param(VARIANT, id="one-sample"),
        pytest.param(MAIN, id="contiguous", marks=pytest.mark.slow),
        pytest.param(STRIDED, id="strided", marks=pytest.mark.slow),
    ],
)
def test_kernels_equal_eager_on_samples_of_the_operator_database(library: Library, extent: Extent) -> None:
    failures = disagreements(library, extent)
    assert not failures, "\n".join(failures)


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["baseline", "avx2"])
def test_each_variant_of_the_kernels_equals_eager(library_path: Path, variant: str) -> None:
    library = Library(library_path, variant)
    if not library.available:
        pytest.skip(f"this processor cannot run {variant}")
    if library.kernels == Library(library_path).kernels:
        pytest.skip(f"{variant} is the best variant for this processor, which the test above compares")
    failures = disagreements(library, VARIANT)
    assert not failures, "\n".join(failures)


def test_the_table_of_operators_is_up_to_date() -> None:
    text = DOC.read_text()
    assert render(read_measured(text), extent_of(text)) == text, (
        "run tests/kernels/opinfo_table.py, see docs/operators.md"
    )


def test_every_operator_is_covered() -> None:
    measured, tests = read_measured(DOC.read_text()), own_tests()
    uncovered = [n for n in operators() if measured[n].passed == 0 and not tests[n]]
    assert not uncovered


def test_nearly_all_samples_pass_and_the_rest_has_a_reason() -> None:
    for name, measured in read_measured(DOC.read_text()).items():
        tried = measured.passed + measured.failed
        assert measured.failed == 0 or name in REASONS, name
        assert measured.passed >= MIN_PASS_RATE * tried or "random" in REASONS[name], name
