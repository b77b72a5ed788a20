"""Run elementwise operators, comparisons, logic and conversions on the device."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from device_support import check_on_device

INF, NAN = math.inf, math.nan
EDGECORE = ("edgecore",)
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -0.5, -1.5, INF, -INF, NAN, 3.0, -3.0, 6.0, -6.0, 1e-4, -1e-4]
X = torch.cat([torch.randn(31, generator=torch.Generator().manual_seed(1)) * 4, torch.tensor(SPECIAL)]).reshape(7, 7)
I = torch.tensor([[3, -7, 0, 5, 100, -1, 2], [7, 7, 7, -7, -7, 2, 1]])
J = torch.tensor([[2, 2, 3, -2, 7, 1, -1], [2, -2, 3, 3, -3, 5, 7]])
B, C = I > 0, J > 2


def gelus(x):
    return F.gelu(x), F.gelu(x, approximate="tanh")


UNARY = {
    "signs": lambda x: (x.abs(), -x, x.round(), F.relu(x), F.leaky_relu(x), F.hardshrink(x, 0.7)),
    "roots": lambda x: (x.sqrt(), x.rsqrt(), x.reciprocal(), x.log10(), x.exp()),
    "waves": lambda x: (torch.where(x.abs() < 20, x, 0.5).sin(), torch.where(x.abs() < 20, x, 0.5).cos()),
    "gates": lambda x: (x.tanh(), x.sigmoid(), F.silu(x), F.hardswish(x), F.hardsigmoid(x)),
    "gelu": lambda x: gelus(torch.where(x == INF, 30, x)),  # PyTorch's own of infinity differs by processor
    "clamps": lambda x: (x.clamp(-1.5, 2), x.clamp(min=0.5), x.clamp(max=-0.5), F.hardtanh(x), F.relu6(x)),
}
UNARY_EXTRA = {
    "rounding": lambda x: (x.floor(), x.ceil(), x.trunc(), x.sign()),
    "logarithms": lambda x: (x.log(), x.log1p(), x.expm1(), x.erf()),
    "elu": lambda x: (F.elu(x), F.elu(x, 0.5), F.celu(x, 2.0), F.selu(x), F.softplus(x)),
}


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("name", [*UNARY, *UNARY_EXTRA])
def test_unary_operators_of_all_kinds_of_numbers(name, half):
    function = UNARY.get(name) or UNARY_EXTRA[name]
    runtimes = EDGECORE if name in UNARY_EXTRA else ("executorch-1.5", "edgecore")
    check_on_device(function, X.half() if half else X, runtimes=runtimes, tolerance=2e-3 if half else 1e-5)


def test_small_numbers_keep_their_digits():
    x = torch.tensor([1e-7, -1e-7, 1e-4, -1e-4, 0.2, -0.2])
    check_on_device(lambda x: (x.log1p() * 1e7, x.expm1() * 1e7, F.elu(x) * 1e7), x, runtimes=EDGECORE, tolerance=1e-6)


def test_angles_of_many_turns():
    check_on_device(lambda x: (x.sin(), x.cos()), torch.randn(500) * 10000, runtimes=EDGECORE, tolerance=1e-6)


@pytest.mark.parametrize(
    ("a", "b"),
    [((7, 7), (7, 7)), ((2, 3, 4, 5), (3, 1, 1)), ((2, 3, 1, 8), (4, 1)), ((3, 4), ()), ((), ()), ((5, 1), (1, 4))],
)
def test_binary_operators_broadcast(a, b):
    def model(a, b):
        return a + b, a - b, b - a, a * b, a / b, torch.add(a, b, alpha=3), torch.minimum(a, b), torch.maximum(b, a)

    check_on_device(model, torch.randn(a), torch.randn(b))
    check_on_device(model, torch.randn(a), torch.randn(b), runtimes=EDGECORE, force_fp16=True, tolerance=2e-2)


def test_binary_operators_of_six_dims():
    check_on_device(
        lambda a, b: (a + b, torch.maximum(b, a)), torch.randn(2, 1, 2, 2, 3, 8), torch.randn(1, 3, 1, 2, 1, 8),
        runtimes=EDGECORE,
    )  # fmt: skip


def test_binary_operators_of_images():
    def model(x, gate, row):
        x = F.max_pool2d(x, 1) if x.shape[1] > 8 else x
        return (F.conv2d(x, torch.eye(8).reshape(8, 8, 1, 1)) * gate + row) > 0.25

    check_on_device(model, torch.randn(1, 8, 5, 3), torch.rand(1, 8, 1, 1), torch.randn(3))


def test_special_numbers_pass_through_binary_operators():
    check_on_device(lambda a, b: (a + b, a * b, a / b, torch.minimum(a, b), torch.maximum(a, b), a**b), X, X.flip(0))


def test_integers_of_all_arithmetic():
    def model(a, b):
        sums = a + b, a - b, a * b, a + 2.5, 3 - a, a / b, a // b, a // 3
        return *sums, torch.minimum(a, b), a.clamp(-3, 50), a.clamp(max=0.5)

    def more(a, b):
        return torch.maximum(a, b), torch.div(a, b, rounding_mode="trunc"), a % b, a % 3, a.abs(), -a, a**2, a**3

    check_on_device(model, I, J)
    check_on_device(more, I, J, runtimes=EDGECORE)


def test_division_with_rounding():
    a = torch.cat([X.flatten(), torch.tensor([1.0, 7, -7, 7, -7, 5, -5, 3, -3])])
    b = torch.cat([X.flip(1).flatten(), torch.tensor([0.1, 2, 2, -2, -2, INF, INF, -INF, -INF])])
    c, d = torch.randint(-2000, 2000, (3, 500)) / 8.0, torch.randint(-20, 20, (3, 500)) / 8.0
    check_on_device(lambda *v: [torch.div(v[i], v[i + 1], rounding_mode="floor") for i in (0, 2)], a, b, c, d)
    check_on_device(
        lambda *v: [f(v[i], v[i + 1]) for i in (0, 2) for f in (torch.remainder, truncated)], a, b, c, d,
        runtimes=EDGECORE,
    )  # fmt: skip


def truncated(a, b):
    return torch.div(a, b, rounding_mode="trunc")


def test_powers_of_negative_and_special_bases():
    a = torch.tensor([-2.0, -2, -2, 3, 0, 0, 1, -1, -8, -1, -INF, -INF, 0.5, 2, NAN, 1])
    b = torch.tensor([2.0, 3, -1, 2.5, 0, 2, INF, 3, 1 / 3, INF, 3, -2, -INF, -INF, 0, NAN])
    check_on_device(lambda a, b: (a**b, a**3, a**-2, a**0.5, a.abs() ** 1.7, 2.0**a, a**100), a, b)
    i, j = torch.tensor([2, 3, -2, 0, 1, 5]), torch.tensor([3, 2, 5, 0, 7, 1])
    check_on_device(lambda i, j: i**j, i, j)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32, torch.int64])
def test_comparisons_of_each_dtype(dtype):
    a, b = (I, J) if dtype in (torch.int32, torch.int64) else (X, X.t().contiguous())

    def model(a, b):
        tensors = a == b, a != b, a < b, a <= b, a > b, a >= b
        return *tensors, a == 2, a != 2, a < 2, a <= 2, a > 2, a >= 2, a < 0.5

    check_on_device(model, a.to(dtype), b.to(dtype))


def test_logic_and_bits():
    def model(a, b):
        return a & b, a | b, ~a, torch.logical_and(a, b), torch.logical_or(a, b[:1]), torch.logical_not(a)

    def more(a, b, i, j):
        return a ^ b, torch.logical_xor(a, b), a * b, a == b, i & j, i | j, i ^ j, ~i, i & 3

    check_on_device(model, B, C)
    check_on_device(more, B, C, I, J, runtimes=EDGECORE)


def test_kinds_of_floats():
    check_on_device(lambda x: (x.isnan(), x.isinf(), x.isfinite()), X, runtimes=EDGECORE)


@pytest.mark.parametrize("gpu_shaders", [False, True], ids=["default", "gpu"])
def test_products_with_sigmoids_of_either_factor(gpu_shaders):
    def model(x, y, z):
        return x * x.sigmoid(), y.sigmoid() * y, z * z.sigmoid() + z.sigmoid(), x * (y + 1).sigmoid()

    inputs = torch.randn(3, 7), torch.randn(3, 1), torch.randn(5)
    check_on_device(model, *inputs, load_options={"gpu_shaders": gpu_shaders})


def test_conversions_between_all_dtypes():
    x = torch.tensor([[0.0, -0.0, 0.4, -0.6], [1.0, -2.5, 3.9, 100.0]])
    check_on_device(lambda x: (x.int() + 1, x.long() + 1, ~x.bool(), x.half() + 1, x.bool().float() + 1), x)
    check_on_device(lambda i: (i.float() + 1, ~i.bool(), i.half() + 1, i.int() + 1, i.bool().long() + 1), I)
    check_on_device(lambda i, x, b: (i + x, b + x, b * i), I, torch.randn(7), B)


def test_choices_broadcast_and_convert():
    def model(c, a, b):
        return torch.where(c, a, b), torch.where(c, a, 0.0), a.masked_fill(c, -INF), torch.where(c, 1, a)

    check_on_device(model, torch.randn(4, 16) > 0, torch.randn(4, 16), torch.randn(4, 1))
    check_on_device(
        lambda c, i, x: (torch.where(c, i, x), torch.where(c, i, 3), torch.where(c, c, i > 4), i.masked_fill(c, 9)),
        B, I, torch.randn(7), runtimes=EDGECORE,
    )  # fmt: skip


def test_tensors_of_symbolic_sizes():
    def model(x):
        n = x.shape[0]
        made = (
            torch.arange(n) * 2,
            torch.arange(n, dtype=torch.float32),
            torch.arange(0, n, 1),
            torch.full((n, 3), 2.5),
            torch.full((n,), 7),
        )
        return x + 1, *made, torch.full_like(x, 3), torch.zeros_like(x).bool(), torch.ones(n, dtype=torch.bool)

    n = torch.export.Dim("n", min=2, max=16)
    others = [(torch.randn(size, 8),) for size in (2, 16, 7)]
    check_on_device(model, torch.randn(4, 8), dynamic_shapes=(({0: n},),), others=others, runtimes=EDGECORE)


def test_choices_with_numbers_follow_symbolic_sizes():
    def function(x):
        return torch.where(x > 0, x, -1.0), x.masked_fill(x < 0, 2.0)

    sizes = ({0: torch.export.Dim("rows", max=6)},)
    x = torch.randn(6, 4)
    check_on_device(function, x, runtimes=["edgecore"], dynamic_shapes=(sizes,), others=[(x[:2],), (x[:5] * 2,)])
