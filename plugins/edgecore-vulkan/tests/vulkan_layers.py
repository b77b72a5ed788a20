"""Networks for the tests of quantized layers, and torchao's integer weights."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torchao.quantization import Int8DynamicActivationIntxWeightConfig, IntxWeightOnlyConfig, quantize_
from torchao.quantization.granularity import PerAxis

ROWS = PerAxis(0)
"""A scale for each row of a weight; `PerGroup` is one for each group."""


class Net(nn.Module):
    """Convolutions of each kind, sums with and without an activation, linear layers on rows and on images."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16)
        self.depthwise, self.pointwise = nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.Conv2d(16, 16, 1)
        self.dilated = nn.Conv2d(16, 10, (3, 1), padding=(2, 0), dilation=2, bias=False)
        self.rows, self.last = nn.Linear(8, 12), nn.Linear(10, 6)

    def forward(self, x):
        x = F.relu6(self.norm(self.first(x)))
        x = F.relu(self.pointwise(F.relu(self.depthwise(x))) + x)
        x = self.dilated(x)
        return self.last(x.mean((2, 3)).flatten(1)), self.rows(x)


def quantized(model: nn.Module, bits: torch.dtype, granularity, is_dynamic: bool, **options) -> nn.Module:
    if is_dynamic:
        config = Int8DynamicActivationIntxWeightConfig(weight_dtype=bits, weight_granularity=granularity, **options)
    else:
        config = IntxWeightOnlyConfig(weight_dtype=bits, granularity=granularity, **options)
    quantize_(model.eval(), config)
    return model
