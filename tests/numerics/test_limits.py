"""How much of an error rounding explains."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from edgecore.numerics.limits import NOISE_MARGIN, error_limit, unmasked_magnitude


def test_the_limit_follows_the_dtype_the_tolerance_or_the_noise_whichever_allows_more():
    want = torch.tensor([1.0, -4.0])
    assert error_limit(want, want) == pytest.approx(4e-3)
    assert error_limit(want, want, dtype=torch.float16) == pytest.approx(8e-2)
    assert error_limit(want, want, tolerance=0.5) == 2
    assert error_limit(want, want, [want + 0.5, want], tolerance=0.0) == NOISE_MARGIN * 0.5
    assert error_limit(want.long(), want.long()) == 0
    assert error_limit(want, want, [want * math.inf]) == math.inf


def test_values_of_a_mask_count_only_if_they_differ():
    want = torch.tensor([2.0, -1e9, -1e9])
    assert unmasked_magnitude(want, want.clone()) == 2
    assert unmasked_magnitude(want, want * 1.01) == 1e9
