"""Elementwise operators on executorch's runtime, and what is refused."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from lowered import check, refusals

import edgecore

SHAPES = [((3,), (3,)), ((2, 3), (3,)), ((1, 5, 7, 3), (1, 5, 1, 1)), ((2, 3, 4, 5), (4, 5)), ((2, 1, 4), (2, 3, 1))]


@pytest.mark.parametrize("a, b", SHAPES)
def test_binary_operators_broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    left, right = torch.randn(a), torch.rand(b) + 0.5

    def function(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [x + y, torch.sub(x, y, alpha=2.5), x * y, x / y, torch.minimum(x, y), torch.maximum(x, y), y - x]

    check(function, left, right)


def test_operands_may_be_numbers() -> None:
    check(lambda x: [x + 2.5, x - 1, 3 - x, x * 0.1, x / 3, torch.add(x, 2, alpha=3), 1 / x], torch.rand(2, 3, 4) + 1)


def test_operands_may_be_constants() -> None:
    class Affine(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.randn(6, 1, 1))
            self.image = torch.nn.Parameter(torch.randn(1, 6, 5, 5))
            self.conv = torch.nn.Conv2d(6, 6, 3, padding=1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.conv(x) * self.scale + self.image

    assert check(Affine(), torch.randn(1, 6, 5, 5))["StaticTranspose"] == 2


def test_unary_operators_of_positive_numbers_equal_eager() -> None:
    check(lambda x: [x.log(), x.sqrt(), x.rsqrt(), x.reciprocal(), x**0.5], torch.rand(3, 7) + 0.1)


def test_roots_of_large_numbers_are_right() -> None:
    """XNNPACK's other kernels, which executorch 1.5.1 has, give 1.5 times the root from 8.5e37 on."""

    class Roots(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            return [x.sqrt(), x.rsqrt()]

    x = torch.tensor([1e37, 8.6e37, 1e38, 3.4e38])
    results = edgecore.load(edgecore.compile(Roots().eval(), (x,), backends=["xnnpack"])).forward(x)
    torch.testing.assert_close(results, [x.sqrt(), x.rsqrt()], rtol=1e-5, atol=0)


def test_the_inverse_square_root_of_zero_and_infinity_equals_eager() -> None:
    class Roots(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            return [x.rsqrt(), x**-0.5]

    x = torch.tensor([0.0, torch.inf, 4.0, torch.nan])
    results = edgecore.load(edgecore.compile(Roots().eval(), (x,), backends=["xnnpack"])).forward(x)
    assert all(torch.equal(one.nan_to_num(nan=7), x.rsqrt().nan_to_num(nan=7)) for one in results)


@pytest.mark.parametrize(
    "function, value, operator, reason",
    [
        (lambda x: x + 1, torch.ones(3, dtype=torch.int64), "aten.add.Scalar", "dtype int64"),
        (lambda x: x + 1, torch.ones([1] * 7), "aten.add.Scalar", "rank 7"),
        (lambda x: x + 1, torch.ones(0, 3), "aten.add.Scalar", "empty tensor"),
        (lambda x: x**0.3, torch.ones(3), "aten.pow.Tensor_Scalar", "exponent 0.3"),
        (torch.erf, torch.ones(3), "aten.erf.default", "no lowering"),
        (lambda x: x.clamp(max=torch.nan), torch.ones(3), "aten.clamp.default", "a limit is NaN"),
        (lambda x: F.leaky_relu(x, torch.inf), torch.ones(3), "aten.leaky_relu.default", "slope inf"),
        (lambda x: F.elu(x, torch.inf), torch.ones(3), "aten.elu.default", "alpha inf"),
    ],
)
def test_elementwise_operators_outside_are_reported_with_their_reason(
    function: object, value: torch.Tensor, operator: str, reason: str
) -> None:
    assert reason in refusals(function, value)[operator]
