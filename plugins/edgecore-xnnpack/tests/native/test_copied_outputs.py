"""Outputs that are also copied into other outputs: each copy must run, wherever the values lie in memory."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest
import torch

import edgecore

KINDS = {"LSTM": torch.nn.LSTM, "GRU": torch.nn.GRU, "RNN": torch.nn.RNN}
DTYPES = {torch.float32: 1e-5, torch.float16: 4e-3}
STEPS, BATCHES, WIDTHS = range(1, 7), range(1, 5), range(1, 10)

Size = tuple[int, int, int, torch.dtype, bool]


def all_sizes() -> list[Size]:
    """All (steps, batch, hidden, dtype, last state first)."""
    return list(itertools.product(STEPS, BATCHES, WIDTHS, DTYPES, (False, True)))


def sizes_in_ci(kind: str) -> list[Size]:
    """Sizes in which the last state lies 16, 32 and 48 bytes after the start of the output, and some others."""
    draw = random.Random(kind)
    chosen = []
    for offset in (16, 16, 32, 48):
        for dtype in DTYPES:
            chosen.append(draw.choice([s for s in all_sizes() if _offset(s) == offset and s[3] == dtype]))
    return chosen + draw.sample(all_sizes(), 2)


def _offset(size: Size) -> int:
    steps, batch, hidden, dtype, _ = size
    return (steps - 1) * batch * hidden * dtype.itemsize


class Recurrent(torch.nn.Module):
    """The output and the last states of a recurrent layer, or these before the output."""

    def __init__(self, kind: str, hidden: int, reverse: bool) -> None:
        super().__init__()
        self.layer, self.reverse = KINDS[kind](3, hidden), reverse

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        output, last = self.layer(x)
        results = (output, *last) if isinstance(last, tuple) else (output, last)
        return results[::-1] if self.reverse else results


def check_recurrent(kind: str, size: Size) -> None:
    steps, batch, hidden, dtype, reverse = size
    torch.manual_seed(0)
    check(Recurrent(kind, hidden, reverse).to(dtype), torch.randn(steps, batch, 3).to(dtype), DTYPES[dtype], str(size))


def check(module: torch.nn.Module, x: torch.Tensor, tolerance: float, name: str) -> None:
    with torch.no_grad():
        expected = module.eval()(x)
    program = edgecore.compile(module, (x,), backends=[edgecore.Backend("xnnpack", required=True)])
    # The memory of the outputs is full of 7 first: a copy that is skipped leaves them.
    out = [torch.full_like(want, 7) for want in expected]
    edgecore.load(program.buffer).forward(x, out=out)
    for got, want in zip(out, expected, strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=tolerance, msg=lambda text: f"{name}: {text}")


@pytest.mark.parametrize("kind", KINDS)
def test_all_results_of_a_recurrent_layer_equal_eager(kind: str) -> None:
    for size in sizes_in_ci(kind):
        check_recurrent(kind, size)


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_all_results_of_a_recurrent_layer_of_any_size_equal_eager(kind: str) -> None:
    for size in all_sizes():
        check_recurrent(kind, size)


COPIES: dict[str, Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "cat": lambda a, b, c: (torch.cat([a, b, c]), a, b, c),
    "cat twice": lambda a, b, c: (torch.cat([torch.cat([a, b]), torch.cat([b, c])]), torch.cat([a, b]), b),
    "cat of columns": lambda a, b, c: (torch.cat([a, b, c], 1), b, c, a),
    "stack": lambda a, b, c: (torch.stack([a, b, c]), c, a, b),
    "slices": lambda a, b, c: ((d := torch.cat([a, b, c]))[1:], d[:1], d[2:], d),
    "reshaped": lambda a, b, c: (torch.cat([a, b]).reshape(-1), a.reshape(-1), c.reshape(-1), c),
    "the same twice": lambda a, b, c: (torch.cat([a, a, b]), a, a, b.clone(), b),
}


class Copies(torch.nn.Module):
    """Moves of three computed values, in an order of the outputs."""

    def __init__(self, name: str, reverse: bool) -> None:
        super().__init__()
        self.function, self.reverse = COPIES[name], reverse

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = self.function(x + 1, x * 2, 3 - x)
        return results[::-1] if self.reverse else results


@pytest.mark.parametrize("name", COPIES)
def test_outputs_that_are_copied_into_other_outputs_equal_eager(name: str) -> None:
    for columns, reverse in itertools.product((2, 4, 8), (False, True)):
        check(Copies(name, reverse), torch.randn(2, columns), 1e-6, f"{columns} columns, reverse={reverse}")
