"""Operators that write arguments write mutable buffers in place; where the old content is read later, a copy."""

import pytest
import torch
from edge_programs import Model
from writing_operators import ROWS, buffers_of, kernel_calls, ops, plan_of

from edgecore.errors import CompileError
from edgecore.passes import EDGE_PASSES
from edgecore.passes.library.copy_before_writes import copy_before_writes
from edgecore.pipeline import to_edge

COPY = "dim_order_ops::_clone_dim_order.out"


def names(plan):
    return [name for name, _ in kernel_calls(plan)]


def cache():
    return torch.zeros(4, 2)


def test_a_mutable_buffer_is_written_in_place():
    def function(self, rows):
        ops.append(rows, self.cache, 0)
        ops.append_sum(rows, self.cache, None, 2)
        return self.cache * 2

    plan = plan_of(function, ROWS, cache=cache())
    state = buffers_of(plan)["cache"]
    (first, second, product) = kernel_calls(plan)
    assert first == ("writing::append", [plan.inputs[0], state, first[1][2], state])
    assert second[0] == "writing::append_sum.out" and second[1][1] == state
    assert second[1][-1] == second[1][-2] != state
    assert product[0].startswith("aten::mul") and product[1][0] == state
    assert plan.non_const_buffer_sizes == [0, 48]  # the cache, and the sum of the rows that nothing reads


def test_an_operator_that_returns_the_argument_is_followed_by_it():
    plan = plan_of(lambda self, rows: ops.append_(rows, self.cache, 1) + 1, ROWS, cache=cache())
    state = buffers_of(plan)["cache"]
    (call, _) = kernel_calls(plan)
    assert call[0] == "writing::append_" and call[1][1] == call[1][-1] == state


def test_an_out_variant_that_the_model_calls_writes_the_buffer():
    plan = plan_of(lambda self, rows: ops.double.out(rows, out=self.cache) + 1, ROWS, cache=torch.zeros(2, 2))
    state = buffers_of(plan)["cache"]
    assert kernel_calls(plan)[0] == ("writing::double.out", [plan.inputs[0], state, state])


def test_an_operator_that_returns_two_arguments_is_followed_by_their_list():
    def function(self, rows):
        x, y = ops.exchange(self.cache, self.other)
        return x + y + rows[0]

    plan = plan_of(function, ROWS, cache=cache(), other=cache())
    states = buffers_of(plan)
    call = next(call for call in kernel_calls(plan) if call[0] == "writing::exchange")
    assert call[1][:2] == [states["cache"], states["other"]] == plan.values[call[1][2]].val.items
    assert COPY not in names(plan)


def old_content_is_read_later(self, rows):
    before = self.cache.clone()
    ops.append(rows, self.cache, 0)
    return self.cache + before


def the_constant_stays(self, rows):
    new = self.cache.clone()
    ops.append(rows, new, 0)
    return new


def the_input_stays(self, rows):
    new = rows.clone()
    ops.append(rows * 2, new, 0)
    return new, self.cache + rows[0]


def the_caller_gets_the_new_content(self, rows):
    ops.append(rows, self.cache, 0)
    return self.cache


@pytest.mark.parametrize(
    "function", [old_content_is_read_later, the_constant_stays, the_input_stays, the_caller_gets_the_new_content]
)
def test_one_copy_is_made_where_it_is_needed(function):
    plan = plan_of(function, ROWS, cache=cache())
    assert names(plan).count(COPY) == 1 and "aten::copy_" not in names(plan)
    writes = [args[1] for name, args in kernel_calls(plan) if name == "writing::append"]
    assert all(plan.values[value].val.data_buffer_idx == 0 or value == buffers_of(plan)["cache"] for value in writes)
    assert not set(writes) & set(plan.inputs)


def test_a_tensor_that_is_two_arguments_is_copied():
    def function(self, rows):
        ops.append(self.cache, self.cache, 0)
        return rows + 1

    plan = plan_of(function, ROWS, cache=cache())
    ((_, args),) = [call for call in kernel_calls(plan) if call[0] == "writing::append"]
    assert args[0] != args[1] == buffers_of(plan)["cache"]
    assert names(plan).count(COPY) == 1 and "aten::copy_" not in names(plan)


def test_new_content_of_another_buffer_is_copied():
    def function(self, rows):
        x = self.cache.clone()
        ops.append(rows, self.cache, 0)
        self.other.copy_(self.cache)
        self.cache.copy_(x)
        return rows + 1

    program = to_edge(torch.export.export(Model(function, cache=cache(), other=cache()).eval(), (ROWS,)))
    program = copy_before_writes(program.exported_program())
    eager, lowered = Model(function, cache=cache(), other=cache()), program.module(check_guards=False)
    eager(ROWS), lowered(ROWS)
    torch.testing.assert_close(dict(lowered.named_buffers()), dict(eager.named_buffers()))
    plan_of(function, ROWS, cache=cache(), other=cache())


@pytest.mark.parametrize("function", [the_constant_stays, the_input_stays])
def test_without_the_pass_a_constant_or_an_input_is_not_written(function):
    with pytest.raises(CompileError, match=r"writing.append.default .* writes .*, which is a constant or an input"):
        plan_of(function, ROWS, passes=EDGE_PASSES.skip("copy_before_writes", "fold_constants"), cache=cache())


def test_a_method_that_writes_its_input_copies_the_new_content_into_it():
    def function(self, rows):
        ops.append(rows[:1] * 2, rows, 1)
        return rows + 1

    plan = plan_of(function, ROWS)
    assert ("aten::copy_", plan.inputs[0]) in [(name, args[0]) for name, args in kernel_calls(plan)]
    assert plan.outputs[0] == plan.inputs[0]


def test_a_branch_writes_a_copy():
    def function(self, rows):
        def write(rows, cache):
            new = cache.clone()
            ops.append(rows, new, 0)
            return new

        return torch.cond(rows.sum() > 0, write, lambda rows, cache: cache * 2, (rows, self.cache)) + 1

    plan = plan_of(function, ROWS, cache=cache())
    assert sum(name == "writing::append" for name, _ in kernel_branch_calls(plan)) == 1


def kernel_branch_calls(plan):
    kernels = [i.instr_args for i in plan.chains[0].instructions if hasattr(i.instr_args, "op_index")]
    return [(plan.operators[call.op_index].name, call.args) for call in kernels]
