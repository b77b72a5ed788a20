"""Every operator of the lowering in every profile, as docs/comparisons.md lists them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tosa_operators import PROFILES, compare, is_supported, operators

PAGE = Path(__file__).parents[1] / "docs" / "comparisons.md"

QUICK = {"aten.add.Tensor", "aten.convolution.default", "aten.logical_and.default", "aten.layer_norm.default"}
"""Operators that every run tests; the others need --full."""

WITHOUT_SAMPLES = ("conv3d.default", "alias_copy.default", "sum.default", "_upsample_nearest_exact2d.vec")
STEPS = ("floor", "ceil", "round", "trunc", "sign")
NO_CALLS = {
    **{(f"aten.{name}.default", "int16x8"): "refused" for name in STEPS},
    **{(f"aten.{name}", one): "no calls" for name in WITHOUT_SAMPLES for one in PROFILES},
    ("aten._to_copy.default", "fp16"): "no calls",
    **{(f"aten.{name}.default", one): "no calls" for name in ("softshrink", "hardshrink") for one in ("int8", "int16x8")},
}  # fmt: skip
"""The cells of operators that a profile has, but of which no sample is in a delegate."""


def cases() -> list[tuple[str, str]]:
    """Return each operator with each profile that has it."""
    return [(name, profile) for name, row in operators().items() for profile in PROFILES if is_supported(row, profile)]


def cell(operator: str, profile: str) -> str:
    """Return the cell of an operator in a profile."""
    if not is_supported(operators()[operator], profile):
        return "-"
    return NO_CALLS.get((operator, profile)) or ("near" if profile.startswith("fp") else "equal")


@pytest.mark.parametrize(
    ("operator", "profile"),
    [pytest.param(*case, marks=() if case[0] in QUICK else pytest.mark.full) for case in cases()],
)
def test_an_operator_has_the_results_of_the_reference_model(operator, profile):
    assert (compare(operator, profile) > 0) == ((operator, profile) not in NO_CALLS)


def test_the_page_lists_each_operator_in_each_profile():
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    rows = [f"| `{name}` | {' | '.join(cell(name, profile) for profile in PROFILES)} |" for name in operators()]
    assert lines == rows, "\n".join(rows)
