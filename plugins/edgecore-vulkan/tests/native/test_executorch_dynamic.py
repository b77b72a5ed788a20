"""Run files of executorch's own Vulkan partitioner that have symbolic sizes, at several sizes."""

from __future__ import annotations

import pytest
import torch
from executorch_device import check_on_device
from torch import nn
from torch.export import Dim

BATCH, TIME = Dim("batch", min=1, max=8), Dim("time", min=2, max=24)
PAIRS, SIDE = Dim("pairs", min=2, max=12), Dim("side", min=4, max=16)


class Encoder(nn.Module):
    """A layer of a transformer over tokens: the sizes of its views and of a slice of a constant are symbolic."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 32)
        self.register_buffer("positions", torch.randn(24, 32))
        self.norm, self.qkv, self.out = nn.LayerNorm(32), nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, tokens):
        batch, time = tokens.shape
        x = self.table(tokens) + self.positions[:time]
        q, k, v = self.qkv(self.norm(x)).view(batch, time, 3, 4, 8).permute(2, 0, 3, 1, 4).unbind(0)
        weights = (q @ k.transpose(-1, -2) / 8**0.5).softmax(-1)
        return x + self.out((weights @ v).transpose(1, 2).reshape(batch, time, 32))


class Sizes(nn.Module):
    """Sizes that are computed by each operator that executorch passes to its delegate."""

    def forward(self, x):
        batch, time, width = x.shape
        rows = torch.relu(x.reshape(batch * time, width))
        first, rest = x[:, : time // 2], x[:, time - 2 :]
        return rows.softmax(-1), first + 1, rest * 2, torch.cat([x, x], 1).view(batch, time + time, width) - 1


class Images(nn.Module):
    """A fully convolutional network."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU6(), nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.ReLU(),
            nn.Conv2d(8, 16, 1), nn.MaxPool2d(2),
        )  # fmt: skip

    def forward(self, x):
        return self.layers(x)


def tokens(batch: int, time: int) -> tuple[torch.Tensor, ...]:
    return (torch.randint(0, 50, (batch, time)),)


def rows(batch: int, time: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(batch, time, 6),)


def images(height: int, width: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(1, 3, height, width),)


@pytest.mark.slow
@pytest.mark.parametrize("half", [False, True])
def test_a_transformer_of_symbolic_batch_and_length(half):
    check_on_device(
        Encoder(), *tokens(3, 7), dynamic_shapes=({0: BATCH, 1: TIME},), others=[tokens(1, 2), tokens(8, 24), tokens(2, 5)],
        force_fp16=half, tolerance=1e-2 if half else 1e-4,
    )  # fmt: skip


@pytest.mark.slow
def test_images_of_symbolic_height_and_width():
    check_on_device(
        Images(), *images(32, 32), dynamic_shapes=({2: 4 * SIDE, 3: 4 * SIDE},), others=[images(16, 64), images(64, 20)]
    )


def test_a_perceptron_of_symbolic_batch():
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 5), nn.Softmax(-1))
    check_on_device(
        model, torch.randn(3, 16), dynamic_shapes=({0: BATCH},), others=[(torch.randn(n, 16),) for n in (8, 1, 4)]
    )


def test_computed_sizes_run_on_the_device():
    check_on_device(
        Sizes(), *rows(3, 6), dynamic_shapes=({0: BATCH, 1: 2 * PAIRS},), others=[rows(1, 4), rows(8, 24), rows(5, 10)]
    )
