"""Operators that XNNPACK does not have, composed of those that it has, against eager on both runtimes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from lowered import as_module, check, compiled, refusals
from torch import nn

import edgecore
from edgecore_xnnpack.operators import TABLE

Function = Callable[..., torch.Tensor]

X = torch.randn(1, 4, 6, 8, generator=torch.Generator().manual_seed(0))
ROWS = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))
MASK = torch.rand(4, 6, 8, generator=torch.Generator().manual_seed(2)) > 0.5


class Together(nn.Module):
    """Several functions of one input; a constant is added to each result, for moves alone are not delegated."""

    def __init__(self, functions: dict[str, Function]) -> None:
        super().__init__()
        self.functions = functions
        self.mask = nn.Buffer(MASK)
        self.order = nn.Buffer(torch.tensor([2, 0, 1]))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        results = [function(x) if function.__code__.co_argcount == 1 else function(x, self)  # type: ignore[attr-defined]
                   for function in self.functions.values()]  # fmt: skip
        return [result * 2 for result in results]


REDUCTIONS: dict[str, Function] = {
    "mean of 1 and 3": lambda x: x.mean((1, 3)),
    "mean of 0 and 2": lambda x: x.mean((0, 2), keepdim=True),
    "sum of 1 and 3": lambda x: x.sum((1, 3)),
    "amax of the last": lambda x: x.amax(-1),
    "amax of pixels": lambda x: x.amax((2, 3), keepdim=True),
    "amax of 1 and 3": lambda x: x.amax((1, 3)),
    "amin": lambda x: x.amin(1),
    "max.dim": lambda x: x.max(1)[0],
    "min.dim": lambda x: x.min(2, keepdim=True)[0],
    "variance": lambda x: x.var((2, 3)),
    "variance of the last, biased": lambda x: x.var(-1, unbiased=False),
    "standard deviation": lambda x: x.std((1, 3)),
    "logsumexp": lambda x: x.logsumexp(1),
    "logsumexp of much": lambda x: (x * 200).logsumexp(-1, keepdim=True),
    "log_softmax of channels": lambda x: x.log_softmax(1),
    "cumsum of channels": lambda x: x.cumsum(1),
    "cumsum of the last": lambda x: x.cumsum(-1),
    "cumsum of a row": lambda x: x.reshape(1, 192).cumsum(1),
    "cumsum of one": lambda x: x[:, :, :1].cumsum(2),
    "log_softmax of the last": lambda x: (x * 200).log_softmax(-1),
}

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

MOVES: dict[str, Function] = {
    "expand": lambda x: x[:, :1].expand(2, 4, -1, -1),
    "repeat": lambda x: x.repeat(1, 2, 1, 3),
    "repeat, new dimension": lambda x: x.repeat(2, 1, 1, 1, 2),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 1),
    "unbind": lambda x: torch.stack([y * 3 for y in x.unbind(1)], 0),
    "stack": lambda x: torch.stack([x, x * 2], -1),
    "step 2": lambda x: x[:, :, ::2],
    "step 3, rest": lambda x: x[:, :, 1::3, ::5],
    "flip": lambda x: x.flip(1, 3),
    "roll": lambda x: x.roll((1, -2), (2, 3)),
    "roll of all": lambda x: x.roll(5),
    "pixel shuffle": lambda x: F.pixel_shuffle(x, 2),
    "pixel unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "channel shuffle": lambda x: F.channel_shuffle(x, 2),
    "slice_scatter": lambda x: torch.slice_scatter(x, x[:, 1:3] * 2, 1, 1, 3),
    "slice_scatter at the end": lambda x: torch.slice_scatter(x, x[:, 1:3] * 2, 1, -2),
    "select_scatter": lambda x: torch.select_scatter(x, x[:, 1] * 2, 2 - 1, 3),
    "index": lambda x, module: x[:, module.order],
    "index_select": lambda x, module: x.index_select(2, module.order),
    "pad and cut": lambda x: F.pad(x, (-1, 2, 3, -2)),
    "reflected": lambda x: F.pad(x, (1, 2, 1, 1), "reflect"),
    "replicated": lambda x: F.pad(x, (1, 2, 1, 1), "replicate"),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "nearest, unequal": lambda x: F.interpolate(x, size=(18, 8)),
    "nearest, not whole": lambda x: F.interpolate(x, size=(9, 5)),
    "nearest, of a factor": lambda x: F.interpolate(x, scale_factor=1.7),
    "nearest, rows": lambda x: F.interpolate(x[:, :, 0], scale_factor=3),
    "linear": lambda x: F.interpolate(x[:, :, 0], scale_factor=2, mode="linear"),
}

SELECTIONS: dict[str, Function] = {
    "where": lambda x, module: torch.where(module.mask, x, x * 2),
    "where, a number": lambda x, module: torch.where(module.mask, x, 0.5),
    "masked_fill": lambda x, module: x.masked_fill(module.mask, -1e9),
    "masked attention": lambda x, module: x.masked_fill(module.mask[0, 0] & (X[0, 0, 0] > 0), -torch.inf).softmax(-1),
    "tril": lambda x: x.tril(1),
    "triu": lambda x: x.triu(),
}

POOLINGS: dict[str, Function] = {
    "average of a sequence": lambda x: F.avg_pool1d(x[:, :, 0], 3, 2, 1),
    "adaptive of a sequence": lambda x: F.adaptive_avg_pool1d(x[:, :, 0], 1),
    "adaptive of a sequence, to 3": lambda x: F.adaptive_avg_pool1d(x[:, :, 0], 3),
    "adaptive, windows of several sizes": lambda x: F.adaptive_avg_pool2d(x, (4, 5)),
    "adaptive maximum": lambda x: F.adaptive_max_pool2d(x, (3, 2)),
    "global maximum": lambda x: F.adaptive_max_pool2d(x, 1),
    "divisor": lambda x: F.avg_pool2d(x, 2, 1, 1, divisor_override=3),
    "dilation with padding": lambda x: F.max_pool2d(x, 2, 1, 1, dilation=2),
}

GROUPS = {
    "reductions": REDUCTIONS, "activations": ACTIVATIONS, "moves": MOVES, "selections": SELECTIONS, "poolings": POOLINGS
}  # fmt: skip


@pytest.mark.parametrize("name", GROUPS)
def test_group(name: str) -> None:
    check(Together(GROUPS[name]), X)


@pytest.mark.parametrize("name", ["moves", "poolings"])
def test_group_between_convolutions(name: str) -> None:
    conv = nn.Conv2d(4, 4, 3, padding=1)
    check(nn.Sequential(conv, Together(GROUPS[name])), X)


def test_normalizations() -> None:
    class Norms(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList([
                nn.RMSNorm(8), nn.RMSNorm((5, 8), eps=0.1, elementwise_affine=False), nn.GroupNorm(1, 5),
                nn.InstanceNorm1d(5, affine=True), nn.LayerNorm((5, 8)),
            ])  # fmt: skip
            for parameter in self.parameters():
                nn.init.uniform_(parameter)

        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            return [norm(x) for norm in self.norms] + [F.normalize(x, dim=1)]

    check(Norms(), ROWS)
    check(nn.InstanceNorm2d(4, affine=True), X)


def test_products() -> None:
    def function(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        return [F.linear(x, w), F.linear(x, w, b), torch.addmm(b, x[0], w.T, alpha=2, beta=0.5)]

    check(function, ROWS, torch.randn(3, 8), torch.randn(3))


def test_prelu_of_a_sequence() -> None:
    module = nn.PReLU(5)
    nn.init.uniform_(module.weight)
    check(module, ROWS)


def test_selection_keeps_infinities() -> None:
    values = torch.tensor([[torch.inf, -torch.inf, 3.0, -0.0]])
    mask = torch.tensor([True, False, True, False])

    def function(x: torch.Tensor) -> list[torch.Tensor]:
        return [torch.where(mask, x, x * -1), x.masked_fill(mask, 2.0), x.logsumexp(1), x[:, 1:2].logsumexp(1)]

    program = compiled(function, values)
    for got, want in zip(edgecore.load(program.buffer).forward(values), function(values), strict=True):
        assert torch.equal(got, want)


def test_results_without_dimensions() -> None:
    check(
        lambda x: [
            x.sum(),
            x.mean((0, 1, 2, 3)),
            x.amax(),
            x.amin(),
            x.reshape(192).sum(0),
            x.reshape(192)[:1].amax(0),
        ],
        X,
    )


def test_sums_so_far_of_infinities() -> None:
    """What comes before an infinity is finite, unlike in a product with a triangular matrix."""
    inf = torch.inf
    x = torch.tensor([[1, 2, inf, 3, 4], [-inf, 1, inf, 5, 6], [0, torch.nan, 1, 2, 3]])
    got = edgecore.load(compiled(lambda x: x.cumsum(1), x).buffer).forward(x)
    torch.testing.assert_close(got, x.cumsum(1), equal_nan=True)


@pytest.mark.parametrize(
    "function, reason",
    [
        (lambda x: x.sum().exp(), "rank 0"),
        (lambda x: x.reshape(1, 192).repeat(1, 6).cumsum(1), "a cumulative sum of 1152 elements"),
        (lambda x: x.reshape(1, -1).repeat(1, 400).amax(1), "a maximum of 76800 elements"),
        (lambda x: x[:, :1].var(1), "variance of 1 elements"),
        (lambda x: F.elu(x, -1.0), "alpha -1.0"),
        (lambda x: (-2.0) ** x, "base -2"),
        (lambda x: torch.where(x.long() > 0, x, x * 2), "dtype int64"),
        (lambda x: x.masked_fill(x.isnan(), 1.0), "truth values that are computed outside"),
        (lambda x: torch.slice_scatter(x, x[:, :2], 1, 0, 4, 2), "step 2"),
        (lambda x: torch.where(x > 0, torch.nan, x), "NaN is chosen"),
        (lambda x: x.masked_fill(x > 0, torch.nan), "NaN is chosen"),
        (lambda x: F.pad(x.exp(), (-8, 9)), "cuts all of a dimension"),
        (lambda x: x.reshape(1, 192).flip(1), "192 pieces"),
        (lambda x: x.reshape(1, 2, 2, 6, 4, 2)[..., ::2], "step 2 of rank 6"),
        (lambda x: x[:, torch.arange(2), torch.arange(2)], "2 index tensors"),
        (lambda x: x[0, 0].argsort(0).float(), "no lowering"),
        (lambda x: x.index_select(1, x[0, 0, 0, :2].abs().long()), "index not constant"),
        (lambda x: x[:, torch.tensor([[0, 1]])], "index of int64 and rank 2"),
        (lambda x: F.pixel_shuffle(x[0], 2), "rank 3"),
        (lambda x: F.group_norm(x[0, 0], 2), "rank 2"),
        (lambda x: F.avg_pool1d(x[0, 0], 2), "rank 2"),
        (lambda x: F.max_pool2d(x, 2, 1, dilation=2, ceil_mode=True), "dilation with ceil_mode"),
        (lambda x: x.softmax(1, dtype=torch.float64), "dtype"),
        (lambda x: x.sum(1, dtype=torch.float64), "dtype"),
    ],
)
def test_refusals(function: object, reason: str) -> None:
    assert reason in "; ".join(refusals(function, X).values())


@pytest.mark.parametrize(
    "function, reason",
    [
        (lambda x: F.adaptive_max_pool2d(x, 4), "6 not divisible by 4"),
        (lambda x: F.adaptive_max_pool2d(x[0], 2), "rank 3"),
        (lambda x: F.softplus(x, threshold=5), "threshold 5"),
        (lambda x: F.softplus(x, beta=-1), "beta -1"),
        (lambda x: F.celu(x, -0.5), "alpha -0.5"),
        (lambda x: F.rms_norm(x, (8,), x[0, 0, 0]), "weight not constant"),
        (lambda x: F.interpolate(x[:, 0].reshape(1, 1, 48)[..., :47], size=140), "94 pieces"),
    ],
)
def test_refusals_of_what_is_decomposed_then(function: Function, reason: str) -> None:
    program = torch.export.export(as_module(function), (X,))
    program.graph.eliminate_dead_code()
    check_node = TABLE.unsupported_reasons(program, is_decomposed=False)
    assert reason in [check_node(node) for node in program.graph.nodes if node.op == "call_function"]
