"""Small models that tests of several folders compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


class Call(nn.Module):
    """Calls a function of any number of inputs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


class Layers(nn.Module):
    """Two linear layers in modules of their own, with activations and a sum; the weights are always the same."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(8, 8)
        self.block = nn.Sequential(nn.Linear(8, 8), nn.GELU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.block(torch.relu(self.first(x))) + x


class Counter(nn.Module):
    """Adds the number of its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return x + self.count


class Adapted(nn.Module):
    """A base layer with a low-rank adapter, as LoRA adds it, and a buffer that equals a parameter."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.base = nn.Linear(8, 8)
        self.lora_a, self.lora_b = nn.Linear(8, 2, bias=False), nn.Linear(2, 8, bias=False)
        self.register_buffer("same", self.base.bias.detach().clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.lora_b(self.lora_a(x)) * 2.0 + self.same


class Slices(nn.Module):
    """Reads parts of a softmax of [8, 8], which need no memory of their own."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.softmax(x, -1)
        a, b = torch.split(y, 4)
        c = y[2:6]
        return torch.cumsum(a * b, 0), torch.cumsum(c + y[-4:], 0), torch.cumsum(y[3], 0), torch.cumsum(y[1:7:2], 0)


class CatAlongAnInnerDim(nn.Module):
    """Concatenates columns, which do not lie together in the result."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(torch.cat([torch.softmax(x, -1), torch.cumsum(x, 0)], 1), 0)
