"""Helpers that read and edit graphs."""

from __future__ import annotations

from edgecore.ir.graph import for_each


def test_one_number_is_repeated_for_each_dim():
    assert for_each(2, 3) == for_each([2], 3) == for_each((2, 2, 2), 3) == [2, 2, 2]
