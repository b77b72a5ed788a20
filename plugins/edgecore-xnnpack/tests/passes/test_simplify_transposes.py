"""Transpositions that channels last makes redundant disappear."""

from __future__ import annotations

import pytest
import torch
from lowered import compare, compiled, kinds
from torch import nn


def flattened(*between: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), *between, nn.Linear(392, 5))


@pytest.mark.parametrize("recipe", ["int8", "int8-dynamic", "int4-weights", "fp16"])
def test_a_quantized_network_flattens_its_image_without_a_transposition(recipe: str) -> None:
    torch.manual_seed(0)
    net, x = flattened().eval(), torch.randn(2, 3, 16, 16)
    options = {"calibration": [(x,)]} if recipe == "int8" else {}
    program = compiled(net, x, quantize=recipe, **options)
    assert kinds(program)["StaticTranspose"] == 1
    compare(program, net, [(x,)], 0.15 if recipe == "int4-weights" else 0.05)
