"""Small floating-point networks, which a backend compiles as a whole or in part."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

Inputs = tuple[torch.Tensor, ...]


def mlp() -> tuple[nn.Module, Inputs]:
    """Make two linear layers with an activation. Input: [batch, 16]."""
    return _seeded(lambda: nn.Sequential(nn.Linear(16, 33), nn.ReLU(), nn.Linear(33, 7))), (_random(4, 16),)


def convnet() -> tuple[nn.Module, Inputs]:
    """Make convolutions, batch norm, pooling, a residual connection and a classifier. Input: [batch, 3, 32, 32]."""
    return _seeded(_ConvNet), (_random(2, 3, 32, 32),)


def attention() -> tuple[nn.Module, Inputs]:
    """Make a transformer block. Input: [batch, length, 32]."""
    return _seeded(_Attention), (_random(2, 5, 32),)


def elementwise() -> tuple[nn.Module, Inputs]:
    """Make additions, products and activations, some of which most backends support. Two inputs: [rows, 8]."""
    return _seeded(_Elementwise), (_random(3, 8), _random(3, 8))


def mixed() -> tuple[nn.Module, Inputs]:
    """Make sums and products, with cumsum and erf between them. Two inputs: [rows, 8].

    Few backends support cumsum and erf, so the nodes before and after them become separate delegates.
    """
    return _seeded(_Mixed), (_random(3, 8), _random(3, 8))


NETWORKS = {"mlp": mlp, "convnet": convnet, "attention": attention, "elementwise": elementwise, "mixed": mixed}


def _seeded(make: Any) -> nn.Module:
    torch.manual_seed(0)
    module: nn.Module = make().eval().requires_grad_(False)
    return module


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


class _ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.inner = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.Hardswish(), nn.Conv2d(8, 8, 1))
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        x = nn.functional.max_pool2d(x + self.inner(x), 2)
        probabilities: torch.Tensor = torch.softmax(self.head(x.mean((2, 3))), -1)
        return probabilities


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(32), nn.LayerNorm(32)
        self.query, self.key, self.value, self.out = (nn.Linear(32, 32) for _ in range(4))
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        normal = self.first(x)
        q, k, v = (
            layer(normal).view(batch, length, 4, 8).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        result: torch.Tensor = x + self.down(nn.functional.gelu(self.up(self.second(x))))
        return result


class _Elementwise(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total = x + y
        return torch.relu(total * x), torch.sigmoid(total) - y.abs()


class _Mixed(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        total = torch.cumsum(x * y + x, 1)
        return torch.relu(total + torch.erf(y)) * x
