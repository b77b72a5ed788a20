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


def runs(x, dim=None):
    return torch.unique_consecutive(x, return_inverse=True, return_counts=True, dim=dim)


X, OTHER = torch.tensor([[0.5, -1, 2], [-3, 4, -5]]), torch.tensor([[-0.5, -1, -2], [3, -4, -5]])
CASES = {
    "masked sum": (lambda x: x[x > 0].sum(), (X,), (OTHER,)),
    "masked": (lambda x: x[x > 0] * 2, (X,), (OTHER,)),
    "masked_select": (lambda x, mask: torch.masked_select(x, mask) + 1, (X, X > 0), (OTHER, OTHER > 1)),
    "nonzero": (lambda x: torch.nonzero(x > 0), (X,), (OTHER,)),
    "nonzero mean": (lambda x: torch.nonzero(x > 0).float().mean(0), (X,), (OTHER,)),
    "where": (lambda x: torch.where(x > 0), (X,), (OTHER,)),
    "unique_consecutive": (torch.unique_consecutive, (X.ceil() > 0,), (OTHER > 1,)),
    "unique_consecutive, inverse": (lambda x: torch.unique_consecutive(x, return_inverse=True), (X > 1,), (OTHER < 0,)),
    "unique_consecutive, all": (runs, (X > 0,), (OTHER > 9,)),
    "unique_consecutive, rows": (lambda x: runs(x, 0), (X > 1,), (OTHER > 9,)),
    "unique_consecutive, columns": (lambda x: runs(x, 1), (X > 1,), (OTHER > 9,)),
    "unique_consecutive, elements": (lambda x: runs(x, 0), (X[0] > 0,), (OTHER[0] > 0,)),
    "unique_consecutive, sum": (lambda x: runs(x.flatten() // 3)[0].sum() + 1, (X,), (OTHER,)),
    "number": (lambda x: x * x.max().item(), (X,), (OTHER,)),
    "filled": (lambda number: torch.full((2,), number.item()) + 1, (torch.tensor(3),), (torch.tensor(-7),)),
    "rows": (first_rows, (torch.arange(16.0).reshape(8, 2), torch.tensor(3)), (torch.ones(8, 2), torch.tensor(8))),
    "arange": (numbers_below, (torch.tensor(5),), (torch.tensor(16),)),
    "repeat_interleave": (repeated, (torch.tensor([2, 0, 1]),), (torch.tensor([4, 4, 1]),)),
}


KERNEL_CASES = [(name, "edgecore") for name in CASES if "unique" in name]
"""Cases for which the target runtime `edgecore` has a kernel; other runtimes get a decomposition."""


@pytest.mark.parametrize(("name", "runtime"), [*((name, "executorch-1.5") for name in CASES), *KERNEL_CASES])
def test_sizes_of_results_follow_the_values_of_the_inputs(name, runtime):
    function, *given = CASES[name]
    exported = torch.export.export(Call(function).eval(), given[0])
    method = edgecore.load(edgecore.compile(exported, backends=[], runtime=runtime).buffer).forward
    for inputs in given:
        expected, results = function(*inputs), method(*inputs)
        several = isinstance(expected, (tuple, list))
        for result, value in zip(*((results, expected) if several else ([results], [expected])), strict=True):
            torch.testing.assert_close(result, value)


def test_unique_consecutive_along_a_dim_from_the_end_is_refused_because_its_exported_shape_is_wrong():
    exported = torch.export.export(Call(lambda x: torch.unique_consecutive(x, dim=-1)).eval(), (X,))
    assert exported.graph.output_node().args[0][0].meta["val"].dim() == 4
    with pytest.raises(CompileError, match=r"records a wrong shape .* with dim=-1; pass dim=1$"):
        edgecore.compile(exported, backends=[])


@pytest.mark.parametrize("runtime", ["edgecore", "executorch-1.5"])
@pytest.mark.parametrize("size", [0, 2, 9])
def test_the_indices_of_nonzero_static_are_cut_or_filled(size, runtime):
    model = Call(lambda x: torch.nonzero_static(x > 0, size=size, fill_value=7)).eval()
    method = edgecore.load(edgecore.compile(model, (X,), backends=[], runtime=runtime).buffer).forward
    for x in (X, OTHER, torch.zeros(2, 3), torch.ones(2, 3)):
        assert torch.equal(method(x), model(x))


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
