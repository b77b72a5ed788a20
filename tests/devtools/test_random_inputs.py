"""Random inputs that need no numpy."""

from __future__ import annotations

import pytest

from edgecore.devtools.random_inputs import random_tensor
from edgecore.errors import EdgecoreError


def test_random_inputs_are_the_same_every_time():
    first, second = (random_tensor((2, 3), "float32", 0).tolist() for _ in range(2))
    assert first == second
    assert all(-1 <= value < 1 for row in first for value in row)
    assert {value for row in random_tensor((4, 8), "int64", 1).tolist() for value in row} == {0, 1}
    assert random_tensor((), "bool", 0).shape == ()
    with pytest.raises(EdgecoreError, match="float16"):
        random_tensor((1,), "float16", 0)
