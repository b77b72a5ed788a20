"""Special values: edgecore's own kernels give what PyTorch gives, and a page that lists other differences fails."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgecore.conformance import Failed
from edgecore.conformance.samples.calls import TABLE
from edgecore.conformance.special_values import measure as special_values
from edgecore.conformance.special_values.calls import NOT_VALUES, VALUES
from edgecore.conformance.special_values.measure import Difference, Measured
from edgecore.conformance.special_values.words import NONE

LOST = Difference("aten.relu.default", "float32", ("NaN",), "NaN", "0")
EMPTY = f"{special_values.BEGIN.format('all')}\n{special_values.END}\n"


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page that lists one difference."""
    path = tmp_path / "page.md"
    path.write_text(f"# Title\n\n{EMPTY}\nEnd.\n")
    monkeypatch.setenv("EDGECORE_WRITE_PAGES", "1")
    special_values.check_page(path, measured(LOST))
    monkeypatch.delenv("EDGECORE_WRITE_PAGES")
    return path


def measured(*differences: Difference) -> Measured:
    return Measured("acme", differences={"": set(differences)})


def test_the_kernels_of_edgecore_differ_from_pytorch_in_a_root_by_pow_only() -> None:
    """`pow(-inf, 0.5)` is inf, as IEEE 754 says and as in PyTorch's float16; PyTorch's float32 computes sqrt: NaN."""
    result = special_values.measure(None)
    assert result.faults == []
    assert result.differences == {"": {Difference("aten.pow.Tensor_Scalar", "float32", ("-inf",), "NaN", "inf")}}


def test_each_operator_of_the_samples_is_tried_or_has_no_values() -> None:
    assert sorted(set(TABLE) - VALUES - NOT_VALUES) == []
    assert sorted(VALUES & NOT_VALUES) == []


def test_a_page_lists_differences_and_keeps_what_is_written_by_hand(page: Path) -> None:
    text = page.read_text()
    assert "| `relu` | float32 | NaN | NaN | 0 |" in text
    assert text.startswith("# Title\n\n<!-- special values: all -->\n") and text.endswith("\n\nEnd.\n")
    special_values.check_page(page, measured(LOST))


@pytest.mark.parametrize("now", [(), (LOST, replace(LOST, reads=("inf",))), (replace(LOST, result="number"),)])
def test_a_page_fails_if_a_difference_is_gone_or_new_or_another(page: Path, now: tuple[Difference, ...]) -> None:
    with pytest.raises(Failed, match="EDGECORE_WRITE_PAGES=1"):
        special_values.check_page(page, measured(*now))


def test_wrong_results_of_ordinary_elements_cannot_be_listed(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGECORE_WRITE_PAGES", "1")
    result = measured(LOST)
    result.faults.append("aten.relu.default, float32, positive number: nan instead of 2.0")
    with pytest.raises(Failed, match=r"1 faults:\naten.relu.default"):
        special_values.check_page(page, result)


def test_other_sets_of_kernels_list_what_they_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.md"
    names = ("old", "new", "same")
    path.write_text("\n".join(f"{special_values.BEGIN.format(name)}\n{special_values.END}" for name in names))
    monkeypatch.setenv("EDGECORE_WRITE_PAGES", "1")
    other = Difference("aten.exp.default", "float32", ("NaN",), "NaN", "inf")
    special_values.check_page(path, Measured("acme", differences={"old": {LOST}, "new": {other}, "same": {LOST}}))
    new, same = path.read_text().split("<!-- special values: new -->")[1].split("<!-- special values: same -->")
    assert "| `exp` | float32 | NaN | NaN | inf |" in new
    assert "| `relu` | float32 | NaN | NaN | NaN |" in new  # here as in PyTorch
    assert special_values.SAME in same


def test_a_page_without_the_comments_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(f"# Title\n\n{NONE}\n")
    with pytest.raises(Failed, match="has no table of special values: add the lines"):
        special_values.check_page(path, measured())
