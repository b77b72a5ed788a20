"""Operators whose results depend on what they find, on executorch's runtime, which has no kernels of their names."""

from __future__ import annotations

import pytest
import torch
from small_models import Call

import edgecore

runtime = pytest.importorskip("executorch.runtime", reason="executorch, the peer, is not installed")


def runs(x, dim=None):
    return torch.unique_consecutive(x, return_inverse=True, return_counts=True, dim=dim)


X, OTHER = torch.tensor([[1, 1, 2], [1, 1, 2], [3, 4, 4]]), torch.tensor([[1, 2, 1], [2, 1, 2], [2, 1, 2]])
CASES = {
    "nonzero_static": lambda x: torch.nonzero_static(x - 1, size=4, fill_value=9),
    "unique_consecutive": runs,
    "unique_consecutive, rows": lambda x: runs(x, 0),
    "unique_consecutive, columns": lambda x: runs(x, 1),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_model_finds_is_the_same_on_executorch(name):
    program = edgecore.compile(torch.export.export(Call(CASES[name]).eval(), (X,)), backends=[])
    loaded = runtime.Runtime.get().load_program(bytes(program.buffer))
    method = loaded.load_method("forward")
    for x in (X, OTHER):
        results, want = method.execute([x]), CASES[name](x)
        for got, value in zip(results, want if isinstance(want, tuple) else [want], strict=True):
            assert torch.equal(got, value)
