"""Padding and clamps become part of the node before or after."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from lowered import check
from torch import nn


def test_zero_padding_is_fused() -> None:
    module = nn.Sequential(nn.ZeroPad2d((0, 1, 2, 3)), nn.Conv2d(3, 4, 3, 2, 1), nn.ReLU())
    assert check(module, torch.randn(1, 3, 8, 9)) == {"StaticTranspose": 2, "Conv2d": 1}


def test_other_padding_is_not_fused() -> None:
    module = nn.Sequential(nn.ConstantPad2d(1, 2.0), nn.Conv2d(3, 4, 3))
    assert check(module, torch.randn(1, 3, 8, 9))["StaticConstantPad"] == 1


def test_activation_is_fused_into_the_node_before() -> None:
    kinds = check(lambda x, y: [F.relu(x + y), F.relu6(x * y), (x - y).clamp(-1, 2)], torch.randn(4), torch.randn(4))
    assert kinds == {"Add": 1, "Multiply": 1, "Subtract": 1}


def test_a_value_with_two_readers_is_not_clamped() -> None:
    def function(x: torch.Tensor) -> list[torch.Tensor]:
        y = x * 2
        return [y, y.relu()]

    check(function, torch.randn(5))


def test_two_clamps_in_a_row_equal_eager() -> None:
    check(lambda x: (x + 1).clamp(0, 3).clamp(-1, 2), torch.randn(50) * 3)
    check(lambda x: (x + 1).clamp(0, 3).clamp(4, 5), torch.randn(50) * 3)
    check(lambda x: (x + 1).clamp(0, 3).clamp(-5, -4), torch.randn(50) * 3)
