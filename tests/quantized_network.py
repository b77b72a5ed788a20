"""A small network of convolutions, samples of its input, and the program of the recipe int8."""

import torch
from torch import nn

import edgecore

SAMPLES = [torch.rand(1, 3, 12, 12, generator=torch.Generator().manual_seed(seed)) for seed in range(4)]


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.Flatten(), nn.Linear(4096, 5)).eval()


def quantized(calibration, **options):
    return edgecore.compile(
        network(), (SAMPLES[0],), backends=["xnnpack"], quantize="int8", calibration=calibration, **options
    )
