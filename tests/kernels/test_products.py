"""Compare matmuls, convolutions and pooling with float64 in every variant, for sizes around the block sizes."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from native import Library


def tensor(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.randint(-9, 10, shape) if dtype == torch.int64 else torch.randn(shape, dtype=dtype)


def close(out: torch.Tensor, expected: torch.Tensor) -> None:
    rtol = 1e-4 if out.dtype == torch.float32 else 1e-12
    torch.testing.assert_close(out, expected.to(out.dtype), rtol=rtol, atol=rtol)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
@pytest.mark.parametrize(
    ("m", "k", "n"), [(1, 7, 50), (2, 2100, 3), (8, 1, 48), (9, 130, 97), (65, 33, 17), (70, 1100, 1), (130, 0, 5)]
)
@pytest.mark.parametrize("workers", [1, 4])
def test_matmuls_equal_eager_on_both_sides_of_every_block_size(
    build: Library, dtype: torch.dtype, m: int, k: int, n: int, workers: int
) -> None:
    a, b, bias = tensor(dtype, m, k), tensor(dtype, k, n), tensor(dtype, n)
    wide = torch.float64 if dtype == torch.float32 else dtype
    expected = a.to(wide) @ b.to(wide)
    out = torch.full((m, n), 7, dtype=dtype)
    for left in (a, a.t().contiguous().t()):
        for right in (b, b.t().contiguous().t()):
            build.call("aten::mm.out", left, right, out, workers=workers)
            close(out, expected)
    build.call("aten::addmm.out", bias, a, b, 1, 2, out, workers=workers)
    close(out, expected * 2 + bias)
    build.call("aten::addmm.out", bias, a, b, 3, 1, out, workers=workers)
    close(out, expected + 3 * bias)
    build.call("aten::linear.out", a, b.t().contiguous(), bias, out, workers=workers)
    close(out, expected + bias)
    stack = torch.full((3, m, n), 7, dtype=dtype)
    build.call("aten::bmm.out", a.repeat(3, 1, 1), torch.stack([b, b * 2, b * 3]), stack, workers=workers)
    close(stack, torch.stack([expected, expected * 2, expected * 3]))


def random_convolution(seed: int) -> tuple[Any, ...]:
    rng = random.Random(seed)
    groups = rng.choice([1, 1, 2, 5])
    kernel, stride, dilation = ([rng.choice(c), rng.choice(c)] for c in ((1, 2, 3, 5), (1, 1, 2, 3), (1, 1, 2, 4)))
    padding = [rng.choice([0, 1, 3]), rng.choice([0, 1, 3])]
    transposed = seed % 5 == 4
    per_group, out_per_group = (1, 1) if seed % 3 == 1 else (rng.choice([1, 3, 20]), rng.choice([1, 4, 19]))
    if seed % 3 == 1:
        groups = rng.choice([3, 70])
    size = [rng.randint(dilation[i] * kernel[i] + 3, 60 if groups < 70 else 24) for i in (0, 1)]
    x = [rng.choice([1, 2]), per_group * groups, *size]
    weight = [x[1], out_per_group, *kernel] if transposed else [out_per_group * groups, per_group, *kernel]
    return x, weight, out_per_group * groups, stride, padding, dilation, transposed, groups


@pytest.mark.parametrize("seed", range(30))
def test_random_convolutions_equal_eager(build: Library, seed: int) -> None:
    torch.manual_seed(seed)
    shape, weight_shape, channels, stride, padding, dilation, transposed, groups = random_convolution(seed)
    dtype = (torch.float32, torch.float32, torch.float64, torch.int64)[seed % 4]
    x, weight, bias = tensor(dtype, *shape), tensor(dtype, *weight_shape), tensor(dtype, channels)
    arguments = (stride, padding, dilation, transposed, [0, 0], groups)
    expected = torch.convolution(x.double(), weight.double(), bias.double(), *arguments)
    for layout in (torch.contiguous_format, torch.channels_last):
        for filters in (weight, weight.contiguous(memory_format=layout)):
            out = torch.full_like(expected, 7, dtype=dtype).contiguous(memory_format=layout)
            source = x.contiguous(memory_format=layout)
            build.call("aten::convolution.out", source, filters, bias, *arguments, out, workers=1 + seed % 4)
            close(out, expected)


@pytest.mark.parametrize(("size", "kernel", "stride", "padding", "dilation"), [
    ((57, 113), 3, 2, 1, 1), ((20, 70), 3, 1, 1, 1), ((9, 5), 5, 3, 2, 1), ((30, 33), 2, 2, 0, 3), ((4, 4), 4, 1, 2, 1),
])  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_random_poolings_equal_eager(
    build: Library, dtype: torch.dtype, size: tuple[int, int], kernel: int, stride: int, padding: int, dilation: int
) -> None:
    x = torch.randn(2, 3, *size, dtype=dtype)
    x[0, 1] = -torch.inf
    x[1, 2, 2, 3] = torch.nan
    pairs = [[kernel] * 2, [stride] * 2, [padding] * 2]
    expected, where = torch.ops.aten.max_pool2d_with_indices(x, *pairs, [dilation] * 2, True)
    out, indices = torch.zeros_like(expected), torch.zeros_like(where)
    build.call("aten::max_pool2d_with_indices.out", x, *pairs, [dilation] * 2, True, out, indices)
    torch.testing.assert_close(out, expected, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(indices, where)
    for count_padding in (False, True):
        expected = torch.ops.aten.avg_pool2d(x, *pairs, False, count_padding)
        out = torch.zeros_like(expected)
        build.call("aten::avg_pool2d.out", x, *pairs, False, count_padding, None, out)
        torch.testing.assert_close(out, expected, equal_nan=True)


def test_a_convolution_with_padding_that_no_memory_holds_equals_eager(library: Library) -> None:
    """The padded image of each input channel would be far larger than input and output together."""
    x, weight = torch.randn(1, 64, 2, 2), torch.randn(1, 64, 3, 3)
    far = ([1000, 1000], [3000, 3000], [3000, 3000], False, [0, 0], 1)
    expected = torch.convolution(x, weight, None, *far)
    out = torch.empty_like(expected)
    library.call("aten::convolution.out", x, weight, None, *far, out)
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)
