"""Measures of models and goals for them."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")
from torch import nn

from edgecore.devtools.accuracy import is_good_enough, lowest_sqnr, output_sqnr


def test_not_a_number_lowers_the_default_metric():
    metric = output_sqnr(nn.ReLU(), [(torch.ones(2, 16),)])
    assert metric(lambda x: torch.full((2, 16), float("nan"))) == -math.inf
    assert metric(lambda x: x * 1.01) == pytest.approx(40, abs=1e-3)


def test_a_loss_of_a_hundredth_is_40_dB():
    assert lowest_sqnr(0.01) == pytest.approx(40)
    assert is_good_enough(0.9, 0.95, 0.06) and not is_good_enough(0.9, 0.95, 0.04)
