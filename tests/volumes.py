"""Layers of volumes [N, C, D, H, W] that tests compile, and an input of all of them."""

import torch
from torch import nn

VOLUME = torch.randn(2, 4, 6, 9, 8, generator=torch.Generator().manual_seed(0))

LAYERS = {
    "convolution": nn.Conv3d(4, 6, 3),
    "convolution, every argument its own for each dim": nn.Conv3d(4, 6, (3, 2, 3), (2, 1, 2), (2, 1, 0), (2, 3, 1)),
    "convolution in groups without a bias": nn.Conv3d(4, 6, 3, groups=2, padding=1, bias=False),
    "depthwise convolution": nn.Conv3d(4, 4, 3, groups=4, padding=1),
    "depthwise convolution along the depth": nn.Conv3d(4, 8, (5, 1, 1), (2, 1, 1), (2, 0, 0), groups=4),
    "convolution of one pixel": nn.Conv3d(4, 6, 1),
    "convolution of one pixel with a stride": nn.Conv3d(4, 6, 1, 2),
    "convolution of planes": nn.Conv3d(4, 6, (1, 3, 3), padding=(0, 1, 1)),
    "convolution along the depth": nn.Conv3d(4, 6, (3, 1, 1), (2, 1, 1), (1, 0, 0)),
    "convolution of an even kernel to the same size": nn.Conv3d(4, 6, (2, 3, 4), padding="same"),
    "transposed convolution": nn.ConvTranspose3d(4, 6, 3, 2, 1, 1),
    "transposed convolution in groups": nn.ConvTranspose3d(4, 6, 2, 2, groups=2),
    "transposed convolution with gaps": nn.ConvTranspose3d(4, 3, (1, 2, 3), 3, (0, 1, 0), (2, 0, 1), bias=False),
    "transposed convolution along the depth": nn.ConvTranspose3d(4, 6, (4, 1, 1), (2, 1, 1), (1, 0, 0)),
    "maximum": nn.MaxPool3d(3, 2, 1),
    "maximum of planes": nn.MaxPool3d((1, 3, 3), (1, 2, 2), (0, 1, 1)),
    "maximum, rounded up": nn.MaxPool3d((3, 2, 2), 2, (1, 0, 1), ceil_mode=True),
    "maximum with dilation": nn.MaxPool3d(2, 1, 1, (2, 1, 3)),
    "average": nn.AvgPool3d(3, 2, 1),
    "average of what is inside": nn.AvgPool3d((3, 2, 3), (2, 1, 3), 1, count_include_pad=False),
    "average, rounded up": nn.AvgPool3d(4, 3, 1, ceil_mode=True),
    "average of what is inside, rounded up": nn.AvgPool3d(4, 3, 2, ceil_mode=True, count_include_pad=False),
    "average with a divisor": nn.AvgPool3d((3, 2, 3), 2, (1, 0, 1), divisor_override=5),
    "average to one pixel": nn.AdaptiveAvgPool3d(1),
    "average to a size": nn.AdaptiveAvgPool3d((4, 3, 5)),
    "average to a size that divides": nn.AdaptiveAvgPool3d((3, 3, None)),
    "local response norm": nn.LocalResponseNorm(3, alpha=1.0),
}


def normed() -> nn.Module:
    """A small network of volumes: a convolution with its norm, another along the depth, pooling, and a linear layer."""
    norm = nn.BatchNorm3d(6)
    norm.running_mean.fill_(0.3)
    return nn.Sequential(
        nn.Conv3d(4, 6, 3, (1, 2, 2), 1, bias=False), norm, nn.ReLU(), nn.MaxPool3d((1, 2, 2)),
        nn.Conv3d(6, 5, (3, 1, 1), padding=(1, 0, 0)), nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(5, 3),
    ).eval()  # fmt: skip
