"""Branches and loop bodies in delegates: equal to eager on our runtime and on executorch's."""

from __future__ import annotations

import pytest
import torch
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim, export

import edgecore


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.linear = torch.nn.Linear(4, 4)
        self.conv = torch.nn.Conv2d(1, 2, 3, padding=1)

    def forward(self, x):
        return self.function(self, x)


def branches(s, x):
    chosen = torch.cond(x.sum() > 0, lambda x: s.linear(x).relu() + 1, lambda x: torch.sigmoid(s.linear(x)) * 2, (x,))
    return chosen + 1


def convolutions(s, x):
    return torch.cond(x.sum() > 0, lambda x: s.conv(x[None, None]).relu(), lambda x: s.conv(x[None, None] * 2), (x,))


def the_same_twice(s, x):
    return torch.cond(x.sum() > 0, lambda x, y: x + y * 2, lambda x, y: x * y - 1, (x, x))


def two_results(s, x):
    a, b = torch.cond(x.sum() > 0, lambda x: (s.linear(x), x + 1), lambda x: (x * 2, s.linear(x)), (x,))
    return a - b, b


def partly(s, x):
    """The kernels run `topk`, which sorts, between two delegates of a branch."""
    return torch.cond(x.sum() > 0, lambda x: s.linear(s.linear(x).sort(0).values), lambda x: x * 2, (x,))


def nested(s, x):
    def inner(x):
        return torch.cond(x.max() > 1, lambda x: s.linear(x) + 3, lambda x: s.linear(x) - 3, (x,))

    return torch.cond(x.sum() > 0, inner, lambda x: x * 2 + 1, (x,))


def mapped(s, x):
    return torch_map(lambda row, y: s.linear(row[None] + y).relu(), x, x[0] * 1)


def scanned(s, x):
    return scan(lambda state, row: (state * 0.5 + s.linear(row[None])[0], (state + row).relu()), x[0] * 1, x)


def repeated(s, x):
    return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, s.linear(y).tanh()), (torch.tensor(0), x))[1]


FUNCTIONS = [branches, convolutions, the_same_twice, two_results, partly, nested, mapped, scanned, repeated]
X = torch.randn(3, 4, generator=torch.Generator().manual_seed(1)).abs()


def model(function):
    torch.manual_seed(0)
    return Model(function).eval()


def flat(value):
    return list(value) if isinstance(value, (tuple, list)) else [value]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_bodies_in_delegates_equal_eager_on_both_runtimes(function):
    eager = model(function)
    buffer = edgecore.compile(eager, (X,), backends=["xnnpack"]).buffer
    runs = [edgecore.load(buffer).forward]
    try:
        from executorch.extension.pybindings.portable_lib import _load_for_executorch_from_buffer

        theirs = _load_for_executorch_from_buffer(buffer)
        runs.append(lambda x: theirs.forward([x]))
    except ImportError:
        pass
    for x in (X, -X, X * 0.1, X):
        with torch.no_grad():
            expected = flat(eager(x))
        for run in runs:
            torch.testing.assert_close(flat(run(x)), expected, atol=1e-5, rtol=1e-5)


def test_bodies_of_any_size_are_in_delegates():
    exported = export(model(branches), (X,), dynamic_shapes=({0: Dim("rows", min=2, max=16)},))
    program = edgecore.compile(exported, backends=["xnnpack"])
    loaded = edgecore.load(program.buffer)
    for rows in (2, 16, 5):
        x = torch.randn(rows, 4)
        with torch.no_grad():
            torch.testing.assert_close(loaded.forward(x), model(branches)(x), atol=1e-5, rtol=1e-5)
    outside = {row.operator for row in program.report().left_outside}
    assert "aten.linear.default" not in outside and "aten.relu.default" not in outside


def test_the_weights_of_a_body_are_only_in_the_delegates():
    program = edgecore.compile(model(nested), (X,), backends=["xnnpack"]).pte.program
    assert len(program.execution_plan[0].delegates) == 4
    sizes = [value.val.sizes for value in program.execution_plan[0].values if hasattr(value.val, "sizes")]
    assert [4, 4] not in sizes


def test_what_stays_outside_of_a_body_has_its_own_reason():
    report = edgecore.compile(model(partly), (X,), backends=["xnnpack"]).report()
    (row,) = [row for row in report.left_outside if row.operator == "aten.topk.default"]
    assert row.reasons and row.reasons[0][0] == "XnnpackBackend"
