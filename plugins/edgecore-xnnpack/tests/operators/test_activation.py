"""Activation functions, as nodes of their own or composed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from lowered import Together, check
from torch import nn

Function = Callable[..., torch.Tensor]

X = torch.randn(1, 4, 6, 8, generator=torch.Generator().manual_seed(0))
ROWS = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))

ACTIVATIONS: dict[str, Function] = {
    "gelu, tanh": lambda x: F.gelu(x * 3, approximate="tanh"),
    "selu": lambda x: F.selu(x * 3),
    "celu": lambda x: F.celu(x * 3, 0.5),
    "softplus": lambda x: F.softplus(x * 20),
    "softplus, steep": lambda x: F.softplus(x, beta=2.0),
    "mish": lambda x: F.mish(x * 5),
    "logsigmoid": lambda x: F.logsigmoid(x * 20),
    "softshrink": lambda x: F.softshrink(x, 0.4),
    "glu": lambda x: F.glu(x, 1),
    "tanhshrink": F.tanhshrink,
    "clamp, bounds reversed": lambda x: x.clamp(1, -1),
    "hardtanh, bounds reversed": lambda x: torch.ops.aten.hardtanh(x, 1, -1),
    "clamp, bounds equal": lambda x: x.clamp(1, 1),
    "clamp by a tensor": lambda x: x.clamp(min=x[:, :1].neg(), max=x[:, 1:2].abs()),
    "cube": lambda x: x**3,
    "fourth power": lambda x: x**4,
    "other powers": lambda x: (x.abs() + 0.1) ** -1 + (x.abs() + 0.1) ** -0.5 + (x.abs() + 0.1) ** 1.5 + 2**x,
    "inverse square": lambda x: (x.abs() + 0.5) ** -2,
    "logarithms": lambda x: (x.abs() + 0.1).log2() + (x.abs() + 0.1).log10(),
}


def test_composed_activations_equal_eager() -> None:
    check(Together(ACTIVATIONS), X)


def test_a_prelu_of_a_sequence_equals_eager() -> None:
    module = nn.PReLU(5)
    nn.init.uniform_(module.weight)
    check(module, ROWS)


UNARY = {
    "relu": torch.relu, "relu6": F.relu6, "hardtanh": lambda x: F.hardtanh(x, -0.5, 0.7), "sigmoid": torch.sigmoid,
    "clamp": lambda x: x.clamp(-0.3, 0.4), "clamp_min": lambda x: x.clamp(min=0.1), "hardswish": F.hardswish,
    "clamp_max": lambda x: x.clamp(max=0.1), "hardsigmoid": F.hardsigmoid, "silu": F.silu, "gelu": F.gelu,
    "tanh": torch.tanh, "elu": lambda x: F.elu(x, 0.8), "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "exp": torch.exp, "abs": torch.abs, "neg": torch.neg, "floor": torch.floor, "ceil": torch.ceil,
    "square": lambda x: x**2, "sin": torch.sin, "cos": torch.cos,
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_a_unary_operator_equals_eager(name: str) -> None:
    check(UNARY[name], torch.randn(2, 3, 5, 7) * 3)


@pytest.mark.parametrize("shape, slopes", [((2, 3), 3), ((1, 4, 5, 6), 4), ((2, 3, 4), 1)])
def test_a_prelu_equals_eager(shape: tuple[int, ...], slopes: int) -> None:
    module = torch.nn.PReLU(slopes)
    torch.nn.init.uniform_(module.weight)
    check(module, torch.randn(shape))


@pytest.mark.parametrize("shape", [(2, 3, 2, 1), (6,), (1, 1, 2, 1)])
def test_a_prelu_whose_slopes_are_not_those_of_channels_is_decomposed(shape: tuple[int, ...]) -> None:
    class Slopes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("slopes", torch.rand(shape))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.aten._prelu_kernel.default(x, self.slopes)

    assert check(Slopes(), torch.randn(2, 3, 2, 6))["PReLU"] == 0
