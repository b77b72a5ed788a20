"""cond, map, scan and while_loop: equal to eager on our runtime and on executorch's, alone and nested."""

import pytest
import torch
from torch import nn
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn import functional

import edgecore
from edgecore import format as fmt
from edgecore.ir.graph import all_calls
from edgecore.pipeline import to_edge

executorch_runtime = pytest.importorskip("executorch.runtime", reason="executorch, the peer, is not installed")
executorch_exir = pytest.importorskip("executorch.exir", reason="executorch, the peer, is not installed")


class Model(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.linear = nn.Linear(4, 4)

    def forward(self, *args):
        return self.function(self, *args)


def branches(s, x):
    return torch.cond(x.sum() > 0, lambda x: s.linear(x) + 1, lambda x: (x.relu() * 2).view(3, 4), (x,))


def branch_returns_input(s, x):
    a, b = torch.cond(x.sum() > 0, lambda x: (x.clone(), x + 1), lambda x: (x * 2, x.clone()), (x,))
    return a - b, b


def in_place(s, x):
    def branch(x):
        y = x + 1
        y.mul_(2)
        return y

    return torch.cond(x.sum() > 0, branch, lambda x: x - 1, (x,))


def transposed(s, x):
    return torch.cond(x.sum() > 0, lambda y: y.t() * 2, lambda y: (y + 1).t(), (x.t(),)) + x


def nested(s, x):
    def inner(x):
        return torch.cond(x.max() > 1, lambda x: (x + 10, x.sin()), lambda x: (x - 10, x.cos()), (x,))

    a, b = torch.cond(x.sum() > 0, inner, lambda x: (x.exp(), x * x), (x,))
    return a + b, b


def mapped(s, x):
    return torch_map(lambda row, y: (row + y).relu(), x, x[0] * 1)


def mapped_cond(s, x):
    def body(row, y):
        return torch.cond(row.sum() > 0, lambda r, y: r + y, lambda r, y: r * y, (row, y)).sin()

    return torch_map(body, x, x[1] + 0.5)


def two_mapped(s, x):
    return torch_map(lambda rows, y: (rows[0] * y, rows[1] + rows[0]), (x, x + 1), x[0] * 1)


def map_in_map(s, x):
    return torch_map(lambda row: torch_map(lambda item, total: item * 2 + total, row, row.sum()), x)


def scanned(s, x):
    def body(state, row):
        following = state * 0.5 + row
        return following, (following * 2, state.clone())

    return scan(body, x[0] * 3, x)


def scanned_swap(s, x):
    def body(state, row):
        a, b = state
        return (b + 0, a + row), a + b

    return scan(body, (x[0] * 1, x[1] * 1), x)


def reverse_scan(s, x):
    return scan(lambda state, row: (state + row, state.clone() * 2), x[0] * 1, x, reverse=True)


def loop(s, x):
    return while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, s.linear(y).tanh()), (torch.tensor(0), x))


def loop_with_number(s, x):
    return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (0, x))[1]


def loop_with_swap(s, x):
    def body(i, a, b):
        return i + 1, b.clone(), a.clone()

    return while_loop(lambda i, a, b: i < 3, body, (torch.tensor(0), x, x * 2))[1:]


def loop_that_returns_inputs(s, x):
    def body(i, a, b):
        return i + 1, functional.dropout(b, 0.5, training=False), functional.dropout(a, 0.5, training=False)

    return while_loop(lambda i, a, b: i < 3, body, (torch.tensor(0), x, x * 2))[1:]


def loop_in_branch(s, x):
    def repeat(x):
        return while_loop(lambda y: y.sum() < 100, lambda y: (y * 2,), (x,))[0]

    return torch.cond(x.sum() > 0, repeat, lambda x: x - 1, (x,))


def loop_without_iteration(s, x):
    return while_loop(lambda y: y.sum() < -1e9, lambda y: (y * 2,), (x,))[0] + 1


# PyTorch 2.14 refuses to export loops whose body returns its inputs.
loops_of_inputs = pytest.param(
    loop_that_returns_inputs,
    marks=pytest.mark.skipif(torch.__version__ >= (2, 14), reason="torch 2.14 does not export it"),
)
FUNCTIONS = (
    branches, branch_returns_input, in_place, transposed, nested, mapped, mapped_cond, two_mapped, map_in_map, scanned,
    scanned_swap, reverse_scan, loop, loop_with_number, loop_with_swap, loops_of_inputs, loop_in_branch,
    loop_without_iteration,
)  # fmt: skip

torch.manual_seed(0)
INPUTS = [torch.randn(3, 4) + 0.7, torch.randn(3, 4) - 0.7]


def flat(result):
    return [item for item in torch.utils._pytree.tree_leaves(result)]


def run_executorch(path, inputs):
    method = executorch_runtime.Runtime.get().load_program(str(path)).load_method("forward")
    return [tensor.clone() for tensor in method.execute(list(inputs))]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_control_flow_equals_torch_on_both_runtimes(function, tmp_path):
    exported = torch.export.export(Model(function).eval(), (INPUTS[0],))
    before = [node.format_node() for node in all_calls(exported.graph_module)]
    reference = exported.module()
    edge = to_edge(exported).exported_program().module(check_guards=False)
    program = edgecore.compile(exported, backends=[])
    assert fmt.verify(program.pte) == []
    path = tmp_path / "model.pte"
    program.save(path)
    loaded = edgecore.load(path)
    for x in INPUTS * 2:
        with torch.no_grad():
            expected = flat(reference(x))
            torch.testing.assert_close(flat(edge(x)), expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(flat(loaded.forward(x)), expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(run_executorch(path, [x]), expected, atol=1e-5, rtol=1e-5)
    assert [node.format_node() for node in all_calls(exported.graph_module)] == before


@pytest.mark.parametrize("function", [branches, mapped, scanned], ids=lambda function: function.__name__)
def test_control_flow_in_files_of_executorch_runs_here(function, tmp_path):
    model = Model(function).eval()
    exported = torch.export.export(model, (INPUTS[0],))
    reference = exported.module()
    path = tmp_path / "theirs.pte"
    path.write_bytes(executorch_exir.to_edge(exported).to_executorch().buffer)
    loaded = edgecore.load(path)
    for x in INPUTS:
        with torch.no_grad():
            expected = flat(reference(x))
        torch.testing.assert_close(flat(loaded.forward(x)), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("function", [mapped, scanned], ids=lambda function: function.__name__)
def test_loops_over_a_dynamic_dim_equal_torch(function):
    model = Model(function).eval()
    shapes = ((({0: torch.export.Dim("rows", min=2, max=9)}),),)
    exported = torch.export.export(model, (INPUTS[0],), dynamic_shapes=shapes)
    reference, loaded = exported.module(), edgecore.load(edgecore.compile(exported, backends=[]).buffer)
    for rows in (2, 9, 5):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(flat(loaded.forward(x)), flat(reference(x)), atol=1e-5, rtol=1e-5)
