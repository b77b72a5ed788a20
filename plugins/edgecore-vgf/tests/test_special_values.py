"""The page of special values lists every difference from PyTorch; with EDGECORE_WRITE_PAGES=1 this test writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgecore.conformance.special_values import measure as special_values

PAGE = Path(__file__).parents[1] / "docs" / "special-values.md"


@pytest.mark.full
@pytest.mark.usefixtures("device")
def test_the_page_lists_every_difference_from_pytorch() -> None:
    special_values.check_page(PAGE, special_values.measure("vgf"))
