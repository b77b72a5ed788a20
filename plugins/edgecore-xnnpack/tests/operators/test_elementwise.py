"""Elementwise operators on executorch's runtime, and what is refused."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from lowered import check, refusals

SHAPES = [((3,), (3,)), ((2, 3), (3,)), ((1, 5, 7, 3), (1, 5, 1, 1)), ((2, 3, 4, 5), (4, 5)), ((2, 1, 4), (2, 3, 1))]


@pytest.mark.parametrize("a, b", SHAPES)
def test_binary_operators_broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    left, right = torch.randn(a), torch.rand(b) + 0.5

    def function(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [x + y, torch.sub(x, y, alpha=2.5), x * y, x / y, torch.minimum(x, y), torch.maximum(x, y), y - x]

    check(function, left, right)


def test_numbers_as_operands() -> None:
    check(lambda x: [x + 2.5, x - 1, 3 - x, x * 0.1, x / 3, torch.add(x, 2, alpha=3), 1 / x], torch.rand(2, 3, 4) + 1)


def test_constants_as_operands() -> None:
    class Affine(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.randn(6, 1, 1))
            self.image = torch.nn.Parameter(torch.randn(1, 6, 5, 5))
            self.conv = torch.nn.Conv2d(6, 6, 3, padding=1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.conv(x) * self.scale + self.image

    assert check(Affine(), torch.randn(1, 6, 5, 5))["StaticTranspose"] == 2


UNARY = {
    "relu": torch.relu, "relu6": F.relu6, "hardtanh": lambda x: F.hardtanh(x, -0.5, 0.7), "sigmoid": torch.sigmoid,
    "clamp": lambda x: x.clamp(-0.3, 0.4), "clamp_min": lambda x: x.clamp(min=0.1), "hardswish": F.hardswish,
    "clamp_max": lambda x: x.clamp(max=0.1), "hardsigmoid": F.hardsigmoid, "silu": F.silu, "gelu": F.gelu,
    "tanh": torch.tanh, "elu": lambda x: F.elu(x, 0.8), "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "exp": torch.exp, "abs": torch.abs, "neg": torch.neg, "floor": torch.floor, "ceil": torch.ceil,
    "square": lambda x: x**2, "sin": torch.sin, "cos": torch.cos,
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    check(UNARY[name], torch.randn(2, 3, 5, 7) * 3)


def test_unary_of_positive_numbers() -> None:
    check(lambda x: [x.log(), x.sqrt(), x.rsqrt(), x.reciprocal(), x**0.5], torch.rand(3, 7) + 0.1)


@pytest.mark.parametrize("shape, slopes", [((2, 3), 3), ((1, 4, 5, 6), 4), ((2, 3, 4), 1)])
def test_prelu(shape: tuple[int, ...], slopes: int) -> None:
    module = torch.nn.PReLU(slopes)
    torch.nn.init.uniform_(module.weight)
    check(module, torch.randn(shape))


def test_activation_is_fused_into_the_node_before() -> None:
    kinds = check(lambda x, y: [F.relu(x + y), F.relu6(x * y), (x - y).clamp(-1, 2)], torch.randn(4), torch.randn(4))
    assert kinds == {"Add": 1, "Multiply": 1, "Subtract": 1}


def test_a_value_with_two_readers_is_not_clamped() -> None:
    def function(x: torch.Tensor) -> list[torch.Tensor]:
        y = x * 2
        return [y, y.relu()]

    check(function, torch.randn(5))


def test_clamp_after_clamp() -> None:
    check(lambda x: (x + 1).clamp(0, 3).clamp(-1, 2), torch.randn(50) * 3)
    check(lambda x: (x + 1).clamp(0, 3).clamp(4, 5), torch.randn(50) * 3)
    check(lambda x: (x + 1).clamp(0, 3).clamp(-5, -4), torch.randn(50) * 3)


@pytest.mark.parametrize(
    "function, value, operator, reason",
    [
        (lambda x: x + 1, torch.ones(3, dtype=torch.int64), "aten.add.Scalar", "dtype int64"),
        (lambda x: x + 1, torch.ones([1] * 7), "aten.add.Scalar", "rank 7"),
        (lambda x: x + 1, torch.ones(0, 3), "aten.add.Scalar", "empty tensor"),
        (lambda x: x**0.3, torch.ones(3), "aten.pow.Tensor_Scalar", "exponent 0.3"),
        (torch.erf, torch.ones(3), "aten.erf.default", "no lowering"),
    ],
)
def test_refusals_name_the_reason(function: object, value: torch.Tensor, operator: str, reason: str) -> None:
    assert reason in refusals(function, value)[operator]
