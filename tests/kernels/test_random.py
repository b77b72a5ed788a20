"""Random operators: the tests check the distribution, because the numbers differ from those of eager PyTorch."""

from __future__ import annotations

import pytest
import torch
from native import Library


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_rand_is_uniform_in_the_unit_interval(library: Library, dtype: torch.dtype) -> None:
    out = torch.empty(200, 250, dtype=dtype)
    library.call("aten::rand.out", [200, 250], out)
    numbers = out.double()
    assert numbers.min() >= 0
    assert numbers.max() <= 1
    assert abs(float(numbers.mean()) - 0.5) < 0.01
    assert abs(float(numbers.var()) - 1 / 12) < 0.005


def test_randn_is_normal(library: Library) -> None:
    out = torch.empty(200, 250)
    library.call("aten::randn.out", [200, 250], out)
    assert abs(float(out.mean())) < 0.02
    assert abs(float(out.var()) - 1) < 0.03
    assert abs(float((out.abs() < 1).double().mean()) - 0.6827) < 0.01
    assert float(out.abs().max()) < 7


def test_calls_of_random_operators_give_different_numbers(library: Library) -> None:
    first, second = torch.empty(100), torch.empty(100)
    library.call("aten::rand.out", [100], first)
    library.call("aten::rand.out", [100], second)
    assert not torch.equal(first, second)


def test_dropout_zeroes_and_scales(library: Library) -> None:
    x = torch.ones(100, 100)
    out, mask = torch.empty(100, 100), torch.empty(100, 100, dtype=torch.bool)
    library.call("aten::native_dropout.out", x, 0.25, True, out, mask)
    assert abs(float(mask.double().mean()) - 0.75) < 0.03
    torch.testing.assert_close(out, mask.float() / 0.75)


def test_dropout_passes_everything_outside_training(library: Library) -> None:
    x = torch.randn(10, 10)
    out, mask = torch.empty(10, 10), torch.empty(10, 10, dtype=torch.bool)
    library.call("aten::native_dropout.out", x, 0.25, False, out, mask)
    assert torch.equal(out, x)
    assert bool(mask.all())
