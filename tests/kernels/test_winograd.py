"""Convolutions of 3x3 that the kernels compute by Winograd's F(2x2): their errors, their memory, infinite elements."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from native import KernelError, Library

LAYOUTS = [torch.contiguous_format, torch.channels_last]


def exact(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, padding: list[int]) -> torch.Tensor:
    return torch.conv2d(x.double(), weight.double(), None if bias is None else bias.double(), padding=padding)


def convolve(
    build: Library,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    padding: list[int],
    layout: torch.memory_format = torch.contiguous_format,
    workers: int = 1,
) -> torch.Tensor:
    shape = torch.conv2d(x.to("meta"), weight.to("meta"), padding=padding).shape
    out = torch.full(shape, 7.0, dtype=x.dtype).contiguous(memory_format=layout)
    images, filters = (one.contiguous(memory_format=layout) for one in (x, weight))
    rest = (bias, [1, 1], padding, [1, 1], False, [0, 0], 1)
    build.call("aten::convolution.out", images, filters, *rest, out, workers=workers)
    return out


def layer(batch: int, channels: int, outputs: int, height: int, width: int) -> tuple[torch.Tensor, ...]:
    return torch.randn(batch, channels, height, width), torch.randn(outputs, channels, 3, 3), torch.randn(outputs)


def is_direct(build: Library, x: torch.Tensor, weight: torch.Tensor, padding: list[int]) -> bool:
    """Return True if the convolution needs the memory that it asks for first; Winograd's algorithm does not."""
    try:
        with build.refused_scratch():
            direct = convolve(build, x, weight, None, padding)
    except KernelError:
        return True
    assert not torch.equal(direct, convolve(build, x, weight, None, padding))
    return False


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("seed", range(40))
def test_a_convolution_of_any_size_equals_float64_with_any_number_of_threads(
    build: Library, seed: int, layout: torch.memory_format
) -> None:
    rng = random.Random(seed)
    torch.manual_seed(seed)
    batch, padding = rng.choice([1, 1, 2, 3]), [rng.choice([0, 1, 1, 2, 5]), rng.choice([0, 1, 1, 2, 5])]
    channels, outputs = rng.choice([16, 17, 31, 48, 100]), rng.choice([16, 19, 49, 64, 97])
    size = [max(3 - 2 * p, rng.choice([1, 2, seed + 1, rng.randint(9, 40), rng.randint(9, 40)])) for p in padding]
    x, weight, bias = layer(batch, channels, outputs, *size)
    given = None if seed % 4 == 0 else bias
    expected = exact(x, weight, given, padding)
    one, *more = (convolve(build, x, weight, given, padding, layout, workers) for workers in (1, 2, 5))
    torch.testing.assert_close(one.double(), expected, rtol=0, atol=1e-6 * float(expected.abs().max()))
    assert all(torch.equal(other, one) for other in more)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [(16, 16, 130, 129), (64, 33, 90, 61), (300, 16, 35, 33)])
def test_a_large_image_is_computed_in_parts(build: Library, size: Any, layout: torch.memory_format) -> None:
    torch.manual_seed(0)
    x, weight, bias = layer(2, *size)
    expected = exact(x, weight, bias, [1, 1])
    one, *more = (convolve(build, x, weight, bias, [1, 1], layout, workers) for workers in (1, 2, 5))
    torch.testing.assert_close(one.double(), expected, rtol=0, atol=1e-6 * float(expected.abs().max()))
    assert all(torch.equal(other, one) for other in more)
    assert torch.equal(convolve(build, x[1:], weight, bias, [1, 1], layout), one[1:])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [(16, 16, 20, 20), (64, 64, 28, 28), (128, 64, 14, 14), (256, 32, 14, 14)])
def test_errors_are_about_those_of_the_direct_sum(build: Library, size: Any, layout: torch.memory_format) -> None:
    torch.manual_seed(0)
    x, weight, bias = layer(1, *size)
    expected = exact(x, weight, bias, [1, 1])

    def error() -> float:
        return float((convolve(build, x, weight, bias, [1, 1], layout) - expected).pow(2).mean().sqrt())

    winograd = error()
    with build.refused_scratch():
        assert 0 < winograd < 1.5 * error()


def test_layers_that_would_not_gain_are_computed_directly(build: Library) -> None:
    for size, padding, direct in (
        ((16, 16, 7, 7), [1, 1], False),
        ((64, 64, 14, 14), [1, 1], False),
        ((16, 16, 12, 12), [0, 0], False),
        ((16, 16, 6, 6), [1, 1], True),  # few tiles for each filter
        ((64, 64, 7, 7), [0, 0], True),
        ((16, 16, 1, 400), [1, 1], True),  # half of each tile is outside of the image
        ((15, 16, 40, 40), [1, 1], True),
        ((16, 15, 40, 40), [1, 1], True),
    ):
        torch.manual_seed(0)
        x, weight, _ = layer(1, *size)
        assert is_direct(build, x, weight, padding) == direct, (size, padding)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan, 3e38])
def test_only_outputs_that_read_an_infinity_are_infinite_or_nan(
    build: Library, value: float, layout: torch.memory_format
) -> None:
    torch.manual_seed(0)
    x, weight, bias = layer(2, 16, 16, 20, 20)
    x[1, 3, 5, 6] = value
    weight[2, 3] = 0.25 if abs(value) < torch.inf else weight[2, 3]  # of an output that is large, but finite
    expected = torch.conv2d(x, weight, bias, padding=1)
    for workers in (1, 4):
        out = convolve(build, x, weight, bias, [1, 1], layout, workers)
        assert torch.equal(out.isnan(), expected.isnan())
        assert torch.equal(out.isinf(), expected.isinf())
        torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4, equal_nan=True)


def test_an_infinite_weight_or_bias_is_as_in_eager(build: Library) -> None:
    torch.manual_seed(0)
    x, weight, bias = layer(1, 16, 16, 20, 20)
    bias[3] = torch.inf
    weight[5, 2, 0, 1] = -torch.inf
    expected = torch.conv2d(x, weight, bias, padding=1)
    out = convolve(build, x, weight, bias, [1, 1])
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_half_precision_is_as_exact_as_eager(build: Library, layout: torch.memory_format) -> None:
    torch.manual_seed(0)
    x, weight, bias = (one.half() for one in layer(1, 32, 32, 20, 20))
    out = convolve(build, x, weight, bias, [1, 1], layout)
    torch.testing.assert_close(out, exact(x, weight, bias, [1, 1]).half(), rtol=1e-3, atol=1e-3)
