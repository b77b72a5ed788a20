"""The fewest transpositions that a graph needs."""

from __future__ import annotations

import pytest
import torch
from lowered import check
from torch import nn


class Squeeze(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.pool, self.act, self.gate = nn.AdaptiveAvgPool2d(1), nn.ReLU(), nn.Hardsigmoid()
        self.down, self.up = nn.Conv2d(channels, 4, 1), nn.Conv2d(4, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.gate(self.up(self.act(self.down(self.pool(x)))))


def test_a_classifier_transposes_its_input_only() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.Hardswish(), Squeeze(8),
        nn.Conv2d(8, 8, 3, groups=8, padding=1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
    )  # fmt: skip
    assert check(model, torch.randn(1, 3, 16, 16))["StaticTranspose"] == 1


def test_a_segmentation_transposes_input_and_output_only() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
            self.up, self.out = nn.ConvTranspose2d(8, 8, 2, 2), nn.Conv2d(16, 5, 1)
            self.norm = nn.GroupNorm(2, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            a = nn.functional.silu(self.norm(self.a(x)))
            b = self.up(torch.relu(self.b(nn.functional.max_pool2d(a, 2))))
            return self.out(torch.cat([a, b], 1))[:, 1:]

    assert check(Net(), torch.randn(1, 3, 16, 16))["StaticTranspose"] == 2


def test_elementwise_nodes_need_no_transposition() -> None:
    assert check(lambda x, y: (x * y).exp(), torch.randn(1, 3, 4, 4), torch.randn(1, 3, 4, 4)) == {
        "Multiply": 1,
        "Exp": 1,
    }


def test_the_smaller_value_is_transposed() -> None:
    conv = nn.Conv2d(2, 8, 1)

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (conv(x).mean(1, keepdim=True) + y).softmax(-1)

    assert check(function, torch.randn(1, 2, 6, 6), torch.randn(1, 1, 6, 6))["StaticTranspose"] <= 2


class Skips(nn.Module):
    """The input is read by a convolution and a sum, a value by another one and the caller."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x + torch.relu(self.a(x))
        return y, y - self.b(y)


class Heads(nn.Module):
    """Boxes of two sizes of an image, as rows, and a map of it as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.box = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 2, 1), nn.Conv2d(8, 12, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = torch.relu(self.a(x))
        rows = [self.box(y).permute(0, 2, 3, 1).reshape(1, -1, 4) for y in (a, torch.relu(self.b(a)))]
        return torch.cat(rows, 1)


class Patches(nn.Module):
    """An image as rows of its pixels, and back."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.layer, self.out = nn.Conv2d(3, 16, 4, 4), nn.Linear(16, 16), nn.Conv2d(16, 8, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.patch(x).flatten(2).transpose(1, 2)
        y = y + self.layer(y.softmax(-1))
        y = self.out(y.transpose(1, 2).reshape(1, 16, 4, 4))
        return y.flatten(2).transpose(1, 2)


class Attended(nn.Module):
    """Attention to pixels by the mean of their channels."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(1, 1, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.a(x))
        return (y * torch.sigmoid(self.b(y.mean(1, keepdim=True)))).mean((2, 3))


class Keys(nn.Module):
    """Heads of queries, keys and values, and the keys transposed."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.view(1, 6, 2, 4).transpose(1, 2) for part in (x * 2).chunk(3, -1))
        return nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(1, 6, 8)


def flattened(*between: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), *between, nn.Linear(392, 5))


@pytest.mark.parametrize(
    ("net", "count"),
    [
        (Skips(), 3),  # the input, and the two results
        (Heads(), 1),
        (Patches(), 1),
        (Attended(), 1),
        (Keys(), 4),
        (flattened(), 1),
        (flattened(nn.Dropout()), 1),
        (flattened(nn.Sigmoid()), 2),  # only the columns of a weight can be in another order
    ],
)
def test_a_network_has_the_fewest_transpositions(net: nn.Module, count: int) -> None:
    shape = {Skips: (1, 4, 7, 6), Keys: (1, 6, 24)}.get(type(net), (1, 3, 16, 16))
    assert check(net, torch.randn(shape, generator=torch.Generator().manual_seed(0)))["StaticTranspose"] == count


def test_blocks_of_convnext_transpose_input_and_output_only() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(8, 8, 7, padding=3, groups=8), nn.LayerNorm(8)
            self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.norm(self.conv(x).permute(0, 2, 3, 1))
            return x + self.down(nn.functional.gelu(self.up(y))).permute(0, 3, 1, 2)

    assert check(nn.Sequential(Block(), Block()), torch.randn(1, 8, 9, 9))["StaticTranspose"] == 2


def test_a_channels_last_model_has_no_transpositions() -> None:
    module = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    value = torch.randn(1, 3, 8, 8).to(memory_format=torch.channels_last)
    assert check(module, value) == {"Conv2d": 1}
