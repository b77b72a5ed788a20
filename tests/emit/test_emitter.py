"""Models that write their inputs: the caller's tensor gets the new content, which is a result of the method, too."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch.export import Dim, export

import edgecore
from edgecore import format as fmt
from edgecore.errors import CompileError, ExecutionError
from edgecore.memory import MemoryPlanningPass
from edgecore.pipeline import ExecutorchBackendConfig, to_edge

X, Y = torch.arange(6.0).reshape(2, 3), torch.ones(2, 3)


class Model(torch.nn.Module):
    """A module with the buffer `state` that calls a function."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.register_buffer("state", torch.full((2, 3), 5.0))

    def forward(self, x, y):
        return self.function(self, x, y)


def written_then_read(self, x, y):
    x.add_(1)
    return x * y


def no_result(self, x, y):
    x.mul_(y + 1)


def returned_itself(self, x, y):
    old = x.clone()
    return old, x.add_(1)


def swapped(self, x, y):
    old = x.clone()
    x.copy_(y)
    y.copy_(old)
    return x + 1


def exchanged_with_a_buffer(self, x, y):
    old = x.clone()
    x.copy_(self.state)
    self.state.copy_(old)
    return self.state + y


def a_row_is_written(self, x, y):
    x[1].mul_(10)
    return None, {"sum": x.sum(), "nothing": None}


def file_of(function, inputs=(X, Y), planned=False, **options):
    exported = export(Model(function), copy.deepcopy(inputs), **options)
    planning = MemoryPlanningPass(alloc_graph_input=planned, alloc_graph_output=planned)
    return to_edge(exported).to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning)).buffer


def flat(value):
    return torch.utils._pytree.tree_leaves(value, is_leaf=lambda one: one is None)


def one_value_twice(self, x, y):
    total = x + y
    x.copy_(total)
    y.copy_(total)
    return total * 2


def one_value_for_an_input_and_a_buffer(self, x, y):
    x.copy_(self.state + y)
    self.state.copy_(x)


@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        written_then_read,
        no_result,
        returned_itself,
        swapped,
        exchanged_with_a_buffer,
        a_row_is_written,
        one_value_twice,
        one_value_for_an_input_and_a_buffer,
    ],
)
def test_a_method_writes_its_inputs_as_eager_does(function, planned):
    model, eager = edgecore.load(file_of(function, planned=planned)), Model(function)
    for run in range(2):
        given = (X + 100 * run, Y)
        inputs, expected = copy.deepcopy(given), copy.deepcopy(given)
        results = flat(eager(*expected))
        changed = [after for before, after in zip(given, expected, strict=True) if not torch.equal(before, after)]
        torch.testing.assert_close(flat(model.forward(*inputs)), [*changed, *results])
        torch.testing.assert_close(inputs, given if planned else expected)


def test_an_input_of_any_size_is_written():
    shapes = ({0: Dim("rows", max=8)},) * 2
    model = edgecore.load(file_of(written_then_read, dynamic_shapes={"x": shapes[0], "y": shapes[1]}))
    x = torch.zeros(5, 3)
    torch.testing.assert_close(model.forward(x, torch.full((5, 3), 2.0))[1], torch.full((5, 3), 2.0))
    assert torch.equal(x, torch.ones(5, 3))


def test_a_read_only_array_is_refused():
    x = np.ones((2, 3), np.float32)
    x.setflags(write=False)
    with pytest.raises(ExecutionError, match="a constant or a read-only input"):
        edgecore.load(file_of(written_then_read)).forward(x, np.ones((2, 3), np.float32))


def test_a_written_input_is_an_output_with_its_name():
    meta = fmt.get_meta(fmt.read_pte(file_of(swapped))).method("forward")
    assert [one.name for one in meta.outputs] == ["x", "y", "output_0"]


def test_models_that_write_inputs_are_not_compared_with_eager():
    model = Model(written_then_read).eval()
    with pytest.raises(CompileError, match="a model that writes its inputs"):
        edgecore.compile(model, copy.deepcopy((X, Y)), backends=[]).compare(model, copy.deepcopy((X, Y)))


def test_executorch_runs_files_that_write_inputs():
    runtime = pytest.importorskip("executorch.extension.pybindings.portable_lib")
    for function in (written_then_read, no_result, swapped, a_row_is_written):
        buffer = file_of(function)  # it must outlive the module
        module = runtime._load_for_executorch_from_buffer(buffer)
        inputs, expected = copy.deepcopy((X, Y)), copy.deepcopy((X, Y))
        results = flat(Model(function)(*expected))
        returned = module.forward(list(inputs))
        torch.testing.assert_close(returned[len(returned) - len(results) :], results)
        torch.testing.assert_close(inputs, expected)
