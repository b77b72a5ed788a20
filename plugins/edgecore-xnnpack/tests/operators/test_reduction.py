"""Reductions, cumulative sums and indices of extremes, over any dims."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from lowered import Together, check, compiled

import edgecore

Function = Callable[..., torch.Tensor]

X = torch.randn(1, 4, 6, 8, generator=torch.Generator().manual_seed(0))


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


def test_reductions_over_any_dims_equal_eager() -> None:
    check(Together(REDUCTIONS), X)


def test_reductions_to_a_number_equal_eager() -> None:
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


def test_cumulative_sums_of_infinities_equal_eager() -> None:
    """Sums before an infinity are finite, unlike in a matmul with a triangular matrix, where 0 * inf is NaN."""
    inf = torch.inf
    x = torch.tensor([[1, 2, inf, 3, 4], [-inf, 1, inf, 5, 6], [0, torch.nan, 1, 2, 3]])
    got = edgecore.load(compiled(lambda x: x.cumsum(1), x).buffer).forward(x)
    torch.testing.assert_close(got, x.cumsum(1), equal_nan=True)


@pytest.mark.parametrize("function", [torch.max, torch.min])
def test_extremes_of_integers_stay_outside(function: object) -> None:
    class Extreme(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x, 1).values  # type: ignore[operator]

    x = torch.tensor([[3, 1, 2], [4, 6, 5]])
    program = edgecore.compile(Extreme().eval(), (x,), backends=["xnnpack"])
    assert "maxima of integers" in str(program.report())
    assert torch.equal(edgecore.load(program.buffer).forward(x), function(x, 1).values)  # type: ignore[operator]
