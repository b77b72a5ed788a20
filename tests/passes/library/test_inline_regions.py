"""Regions that change nothing on a device become a part of the graph around them."""

import copy

import pytest
import torch
from torch import nn

import edgecore
from edgecore.ir.graph import REGIONS, all_calls
from edgecore.ir.program.copying import copy_program
from edgecore.passes.library.functionalize import functionalize
from edgecore.passes.library.inline_regions import inline_regions


class Regions(nn.Module):
    """Writes a buffer and a view under `torch.no_grad()`; has a region inside a region."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        with torch.no_grad():
            doubled = x * 2
            rest = doubled[1:]
            doubled[0] = 1
            self.total.add_(x.sum())
            with torch.autocast("cpu", enabled=False):
                squared = doubled @ doubled
        return doubled @ squared + rest.sum() + self.total


class Casts(nn.Module):
    """Casts under `torch.no_grad()`, but for a region inside the region that casts."""

    def forward(self, x):
        with torch.no_grad():
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = x @ x
                with torch.autocast("cpu", enabled=False):
                    z = x @ x
        return y, z


X = torch.randn(3, 3)


def test_regions_that_change_nothing_are_inlined(monkeypatch):
    model = Regions().eval()
    program = copy_program(torch.export.export(copy.deepcopy(model), (X,)))
    assert all_calls(program.graph_module, *REGIONS)
    program = inline_regions(program)
    assert not all_calls(program.graph_module, *REGIONS)
    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", None)  # torch's functionalization
    exported = functionalize(program).module(check_guards=False)
    for sign in (1, -1):
        torch.testing.assert_close(exported(X * sign), model(X * sign))


def test_a_region_that_casts_stays_for_torch():
    program = inline_regions(copy_program(torch.export.export(Casts().eval(), (X,))))
    assert len(all_calls(program.graph_module, *REGIONS)) == 1
    torch.testing.assert_close(functionalize(program).module(check_guards=False)(X), Casts()(X))


@pytest.mark.parametrize("model", [Regions(), Casts()], ids=["regions", "casts"])
def test_a_model_with_regions_equals_eager(model):
    program = edgecore.load(edgecore.compile(copy.deepcopy(model).eval(), (X,)).buffer)
    for got, want in zip(program.forward(X), model(X), strict=True):
        torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2)


class CastsBranches(nn.Module):
    """Casts in a region with branches, which `torch.export` does not make a graph of its own."""

    def forward(self, x):
        y = x + 1
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y[0].mul_(2)
            product = y @ y
            branch = torch.cond(x.sum() > 0, lambda a: a @ a, lambda a: (a @ a) - 1, (y,))
        return product, branch, y @ y


def test_branches_in_a_region_that_casts_are_cast():
    model, x = CastsBranches().eval(), torch.randn(3, 3)
    loaded = edgecore.load(edgecore.compile(torch.export.export(model, (x,))).buffer)
    for value in (x, -x):
        torch.testing.assert_close(tuple(loaded.forward(value)), model(value))
