"""Custom operators that write arguments become functional ones; the programs compute the same."""

import pytest
import torch
from edge_programs import Model, check, edge_of, targets
from writing_operators import ROWS, ops

from edgecore.errors import CompileError
from edgecore.ir.dialect.verifier import verify
from edgecore.ir.graph import operator_name
from edgecore.pipeline import to_edge


def append_twice(self, rows):
    ops.append(rows, self.cache, 1)
    before = self.cache * 2
    total = ops.append_sum(rows + 1, self.cache, None, 2)
    return before, total, self.cache + 1


def write_a_view(self, rows):
    view = ops.append_(rows, self.cache[1:], 1)
    return view + self.cache[:3]


def write_two(self, rows):
    total = ops.append_sum(rows, self.cache, self.other, 0)
    return total, self.cache - self.other


def swap(self, rows):
    x, y = ops.exchange(self.cache, self.other)
    return x - rows[0, 0], y


def write_a_temporary(self, rows):
    cache = torch.zeros(4, 2) + rows[0]
    ops.append(rows, cache, 1)
    return cache


def under_no_grad(self, rows):
    with torch.no_grad():
        ops.append(rows * 2, self.cache, 0)
    return self.cache * 1


def call_an_out_variant(self, rows):
    ops.double.out(rows, out=self.cache[1:3])
    return ops.double.out(rows + 1, out=torch.empty(2, 2)) * self.cache[0]


FUNCTIONS = [call_an_out_variant, append_twice, write_a_view, write_two, swap, write_a_temporary, under_no_grad]


def buffers():
    return {"cache": torch.arange(8.0).reshape(4, 2), "other": torch.ones(4, 2)}


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_results_and_new_state_are_those_of_eager(function):
    program = edge_of(function, ROWS, **buffers())
    assert not any(target._schema.is_mutable for target in targets(program) if hasattr(target, "_schema"))
    verify(program)
    eager, lowered = Model(function, **buffers()), program.module(check_guards=False)
    torch.testing.assert_close(lowered(ROWS), eager(ROWS))
    expected = dict(eager.named_buffers())
    for name in program.graph_signature.buffers_to_mutate.values():
        torch.testing.assert_close(lowered.get_buffer(name), expected[name])


@pytest.mark.parametrize("function", [append_twice, write_two, write_a_temporary, under_no_grad])
def test_a_program_that_torch_functionalized_is_lowered_too(function):
    program = torch.export.export(Model(function, **buffers()).eval(), (ROWS,)).run_decompositions({})
    assert any("auto_functionalized" in str(target) for target in targets(program))
    program = to_edge(program).exported_program()
    check(program, function, ROWS, **buffers())


def test_the_wrapper_around_the_write_of_a_view_is_undone():
    def function(self, rows):
        ops.append(rows, self.cache[1:], 1)
        return self.cache + 0.5

    program = torch.export.export(Model(function, **buffers()).eval(), (ROWS,)).run_decompositions({})
    assert any("auto_functionalized" in str(target) for target in targets(program))
    check(to_edge(program).exported_program(), function, ROWS, **buffers())


def test_reports_and_messages_name_the_operator_itself():
    program = edge_of(write_two, ROWS, **buffers())
    assert "writing.append_sum.default" in map(operator_name, targets(program))


def test_an_operator_that_writes_a_list_is_refused():
    def function(self, rows):
        ops.append_all(rows, [self.cache, self.other])
        return rows * 2

    with pytest.raises(CompileError, match="writing.append_all.default .* writes a list of tensors"):
        edge_of(function, ROWS, **buffers())
