from __future__ import annotations

from dataclasses import replace

from edgecore.sweeps import CellResult, compare_sweeps

ROW = CellResult("a", "a", "xnnpack", "float", "executorch-1.5", 0, "ok", file_bytes=1000, median_ms=1.0, sqnr_db=90.0)


def changes(*new):
    return [(one.cell, one.what, one.worse) for one in compare_sweeps([ROW], new)]


def test_equal_sweeps_and_noise_are_no_change():
    assert changes(ROW) == changes(replace(ROW, median_ms=1.05, sqnr_db=89.5, cached=True)) == []


def test_regressions_come_first_with_both_values():
    found = changes(replace(ROW, file_bytes=800, median_ms=2.0), replace(ROW, cell="b"))
    assert found == [
        ("a", "a run takes 2 ms, and 1 before", True),
        ("a", "the file has 800 bytes, and 1,000 before", False),
        ("b", "new: ok", False),
    ]


def test_a_cell_that_fails_or_is_gone_is_a_regression():
    assert changes(replace(ROW, status="failed", reason="no kernel")) == [
        ("a", "is failed (no kernel), and was ok", True)
    ]
    assert changes() == [("a", "is gone; it was ok", True)]


def test_a_lower_accuracy_is_worse_and_an_equal_infinite_one_is_none():
    assert changes(replace(ROW, sqnr_db=40.0)) == [("a", "the SQNR is 40 dB, and 90 before", True)]
    same = replace(ROW, sqnr_db=float("inf"))
    assert compare_sweeps([same], [same]) == []
