"""Compare operators that only training calls, and 3-d convolutions, with eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from checker import Catalog, Checker
from native import Library

CONVOLUTION = ("aten::convolution.out", "aten::convolution_backward.out")


def differentiate(library: Library, function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> Checker:
    """Run `function` forward and backward under the checker. The output gradient is not constant."""
    checker = Checker(Catalog(library))
    leaves = [x.requires_grad_() for x in inputs]
    with checker:
        result = function(*leaves)
        result.backward(torch.linspace(-1, 1, result.numel()).reshape(result.shape))
    return checker


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 0, 1), (2, 1, 1), (1, 2, 2)])
def test_gradients_of_convolutions_equal_eager(
    library: Library, dims: int, transposed: bool, groups: int, stride: int, padding: int, dilation: int
) -> None:
    torch.manual_seed(0)
    function = getattr(F, f"conv{'_transpose' if transposed else ''}{dims}d")
    x, size = torch.randn(2, 4, *[6] * dims), [3] * dims
    weight = torch.randn(4, 2, *size) if transposed else torch.randn(6, 4 // groups, *size)
    bias = torch.randn(2 * groups if transposed else 6)
    checker = differentiate(
        library,
        lambda *a: function(*a, stride=stride, padding=padding, dilation=dilation, groups=groups),
        x, weight, bias,
    )  # fmt: skip
    assert not checker.failed
    assert all(checker.passed[name] == 1 for name in CONVOLUTION)


def test_gradients_of_max_pooling_equal_eager(library: Library) -> None:
    checker = differentiate(library, lambda x: F.max_pool2d(x, 3, 2, 1), torch.randn(2, 3, 9, 9))
    assert not checker.failed
    assert checker.passed["aten::max_pool2d_with_indices_backward.grad_input"] == 1
