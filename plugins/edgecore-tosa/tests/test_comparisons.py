"""Every operator of the lowering in every profile, as docs/comparisons.md lists them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tosa_operators import PROFILES, compare, is_supported, operators

PAGE = Path(__file__).parents[1] / "docs" / "comparisons.md"

QUICK = {"aten.add.Tensor", "aten.convolution.default", "aten.logical_and.default", "aten.layer_norm.default"}
"""Operators that every run tests; the others need --full."""

STEPS = ("floor", "ceil", "round", "trunc", "sign", "hardshrink")
REFUSED = {(f"aten.{name}.default", "int16x8") for name in STEPS}
"""The cells of operators whose calls the partitioner rejects."""


def cases() -> list[tuple[str, str]]:
    """Return each operator with each profile that has it."""
    return [(name, profile) for name, row in operators().items() for profile in PROFILES if is_supported(row, profile)]


def cell(operator: str, profile: str) -> str:
    """Return the cell of an operator in a profile."""
    if not is_supported(operators()[operator], profile):
        return "-"
    if (operator, profile) in REFUSED:
        return "refused"
    return "near" if profile.startswith("fp") else "equal"


@pytest.mark.parametrize(
    ("operator", "profile"),
    [pytest.param(*case, marks=() if case[0] in QUICK else pytest.mark.full) for case in cases()],
)
def test_an_operator_has_the_results_of_the_reference_model(operator, profile):
    assert (compare(operator, profile) > 0) == ((operator, profile) not in REFUSED)


def test_the_page_lists_each_operator_in_each_profile():
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    rows = [f"| `{name}` | {' | '.join(cell(name, profile) for profile in PROFILES)} |" for name in operators()]
    assert lines == rows, "\n".join(rows)
