"""Values that other tools compute otherwise than PyTorch, as `findings/` shows: here they are those of eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import edgecore
from edgecore.errors import ExecutionError

BACKENDS = ["", *(name for name in ("xnnpack", "openvino", "vulkan") if find_spec(f"edgecore_{name}") is not None)]
HALVES = (torch.float16, torch.bfloat16)


class Calls(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> object:
        return self.function(x)


def run(backend: str, function: Callable[[torch.Tensor], object], x: torch.Tensor) -> list[torch.Tensor]:
    backends = [backend] if backend else []
    return list(edgecore.load(edgecore.compile(Calls(function).eval(), (x,), backends=backends).buffer).forward(x))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_half_is_compared_with_the_rounded_number(backend, dtype):
    """`x == 0.1` holds for the tensor of 0.1, and a remainder of 0.7 by 0.7 is 0."""
    x = torch.tensor([0.1, 0.3, 0.7, -0.7, 2049.0, 0.5], dtype=dtype)

    def compare(x):
        numbers = (0.1, 0.3, 0.7, -0.7, 2049, 0.5)
        compared = [(x == number, x != number, x < number, x <= number, x > number, x >= number) for number in numbers]
        return *(torch.stack(parts) for parts in compared), x % 0.7, torch.fmod(x, 0.7)

    for got, want in zip(run(backend, compare, x), compare(x), strict=True):
        assert torch.equal(got, want)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8])
def test_a_remainder_of_integers_has_the_sign_of_the_divisor(dtype):
    x = torch.tensor([-1, 5, -5, 5, 7, -128], dtype=dtype)

    def remainders(x):
        return x % 8, x % -3, x % torch.tensor([8, -3, 3, 3, 7, 5], dtype=dtype), torch.fmod(x, 3)

    for got, want in zip(run("", remainders, x), remainders(x), strict=True):
        assert torch.equal(got, want)


@pytest.mark.parametrize("backend", BACKENDS)
def test_norms_subtract_a_large_mean_before_they_square(backend):
    x = 100 + 0.003 * torch.randn(8, 16, generator=torch.Generator().manual_seed(0))

    def norms(x):
        image = x.view(2, 4, 16)
        return F.layer_norm(x, (16,)), F.group_norm(image, 1), F.instance_norm(image), x.var(-1)

    for got, want in zip(run(backend, norms, x), norms(x), strict=True):
        assert (got - want).abs().max() < 0.01 * want.abs().max()


@pytest.mark.parametrize("dtype", HALVES)
def test_sums_of_halves_grow_beyond_2048(dtype):
    x = torch.ones(1, 4096, dtype=dtype)

    def sums(x):
        image = x.view(1, 1, 64, 64)
        return F.conv2d(image, image), F.avg_pool2d(image, 64), x.cumsum(-1)[:, -1], x.mean(-1), x @ x.t()

    assert [float(got) for got in run("", sums, x)] == [4096, 1, 4096, 1, 4096]


@pytest.mark.parametrize("backend", [name for name in BACKENDS if name != "vulkan"])  # its sines are the driver's
def test_sines_and_remainders_of_large_numbers(backend):
    x = 1.7e9 * torch.linspace(1, 1.04, 40)

    def periodic(x):
        return torch.sin(x), torch.cos(x), x % 7.0, torch.fmod(x, 7.0), torch.sqrt(x * torch.inf), torch.rsqrt(x * 0)

    for got, want in zip(run(backend, periodic, x), periodic(x), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_weights_on_a_grid_of_4_bits_stay_there(backend):
    linear = nn.Linear(32, 64, bias=False).eval()
    grid = torch.randint(-6, 7, (64, 32), generator=torch.Generator().manual_seed(0)).float()
    grid[:32, 0], grid[32:, 0] = 7, -7
    linear.weight.data = grid * 0.01
    program = edgecore.compile(linear, (torch.eye(32),), backends=[backend], quantize="int4-weights")
    weight = edgecore.load(program.buffer).forward(torch.eye(32)).t()
    assert (weight - linear.weight).abs().max() < 2e-4  # XNNPACK rounds the inputs, and scales to bfloat16


def test_maxima_take_a_nan_for_the_largest():
    x = torch.tensor([[1, 2, torch.nan, 0], [torch.nan, 1, 2, 3], [1, 2, 3, torch.nan]])

    def maxima(x):
        return x.amax(-1), x.argmax(-1), x.topk(1).values, x.topk(1).indices, F.max_pool1d(x[:, None], 4)

    for got, want in zip(run("", maxima, x), maxima(x), strict=True):
        torch.testing.assert_close(got, want, equal_nan=True)


def test_a_size_below_a_minimum_of_2_is_refused():
    """torch.export drops branches for sizes 0 and 1, and its module does not check this minimum."""
    batch = torch.export.Dim("batch", min=2, max=8)
    program = edgecore.compile(
        Calls(lambda x: x * 2 if x.shape[0] == 1 else x * 3).eval(),
        (torch.ones(4, 2),),
        backends=[],
        dynamic_shapes=({0: batch},),
    )
    loaded = edgecore.load(program.buffer)
    assert torch.equal(loaded.forward(torch.ones(2, 2)), torch.full((2, 2), 3.0))
    with pytest.raises(ExecutionError, match="must be 2 to 8, got 1"):
        loaded.forward(torch.ones(1, 2))
