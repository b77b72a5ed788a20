"""Programs whose sizes and numbers depend on what the tensors hold."""

from __future__ import annotations

import pytest
import torch
from small_models import Call

import edgecore
from edgecore.errors import CompileError


def first_rows(x, count):
    rows = count.item()
    torch._check(rows >= 0)
    torch._check(rows <= x.shape[0])
    return x[:rows] * 2


def numbers_below(count):
    number = count.item()
    torch._check(number >= 0)
    torch._check(number <= 16)
    return torch.arange(number)


def repeated(counts):
    where = torch.repeat_interleave(counts)
    torch._check(where.shape[0] <= 16)
    return where


X, OTHER = torch.tensor([[0.5, -1, 2], [-3, 4, -5]]), torch.tensor([[-0.5, -1, -2], [3, -4, -5]])
CASES = {
    "masked sum": (lambda x: x[x > 0].sum(), (X,), (OTHER,)),
    "masked": (lambda x: x[x > 0] * 2, (X,), (OTHER,)),
    "masked_select": (lambda x, mask: torch.masked_select(x, mask) + 1, (X, X > 0), (OTHER, OTHER > 1)),
    "nonzero": (lambda x: torch.nonzero(x > 0), (X,), (OTHER,)),
    "nonzero mean": (lambda x: torch.nonzero(x > 0).float().mean(0), (X,), (OTHER,)),
    "where": (lambda x: torch.where(x > 0), (X,), (OTHER,)),
    "number": (lambda x: x * x.max().item(), (X,), (OTHER,)),
    "filled": (lambda number: torch.full((2,), number.item()) + 1, (torch.tensor(3),), (torch.tensor(-7),)),
    "rows": (first_rows, (torch.arange(16.0).reshape(8, 2), torch.tensor(3)), (torch.ones(8, 2), torch.tensor(8))),
    "arange": (numbers_below, (torch.tensor(5),), (torch.tensor(16),)),
    "repeat_interleave": (repeated, (torch.tensor([2, 0, 1]),), (torch.tensor([4, 4, 1]),)),
}


@pytest.mark.parametrize("name", CASES)
def test_sizes_of_results_follow_the_values_of_the_inputs(name):
    function, *given = CASES[name]
    exported = torch.export.export(Call(function).eval(), given[0])
    method = edgecore.load(edgecore.compile(exported, backends=[]).buffer).forward
    for inputs in given:
        expected, results = function(*inputs), method(*inputs)
        several = isinstance(expected, (tuple, list))
        for result, value in zip(*((results, expected) if several else ([results], [expected])), strict=True):
            torch.testing.assert_close(result, value)


def test_an_error_about_a_size_without_a_bound_says_how_to_give_one():
    exported = torch.export.export(Call(torch.repeat_interleave).eval(), (torch.tensor([2, 0, 1]),))
    with pytest.raises(CompileError, match=r"without an upper bound.*torch\._check\(y\.shape\[0\] <= 8\)"):
        edgecore.compile(exported, backends=[])


@pytest.mark.parametrize("shift", [torch.bitwise_left_shift, torch.bitwise_right_shift, "<<", ">>"])
def test_shifts_by_tensors_and_by_numbers_equal_eager(shift):
    functions = {"<<": lambda a, b: (a << b, a << 2), ">>": lambda a, b: (a >> b, a >> 2)}
    function = functions.get(shift) or (lambda a, b: (shift(a, b), shift(a, 2)))
    given = (torch.tensor([1, 20, -3]), torch.tensor([2, 1, 0]))
    exported = torch.export.export(Call(function).eval(), given)
    results = edgecore.load(edgecore.compile(exported, backends=[]).buffer).forward(*given)
    torch.testing.assert_close(results, list(function(*given)))
