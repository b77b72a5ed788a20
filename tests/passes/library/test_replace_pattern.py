"""Patterns of operators become one operator of a backend, and back."""

import pytest
import torch
from edge_programs import Model, check, edge_of, targets

import edgecore
from edgecore.errors import CompileError
from edgecore.ir.operators.backend_operators import bind_pattern_to_op
from edgecore.passes import expand_bound_operators, replace_pattern
from edgecore.pipeline import ExecutorchBackendConfig, to_edge

aten = torch.ops.aten

library = torch.library.Library("edgecore_test", "DEF")


@bind_pattern_to_op(library, "edgecore_test::add_relu(Tensor self, Tensor other) -> Tensor")
def add_relu(x, y):
    return aten.relu.default(aten.add.Tensor(x, y))


def test_a_pattern_becomes_a_backend_operator_and_back():
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    function = lambda s, x, y: (x + y).relu() * (x * y + 1).relu() + (x - y).relu()
    program = replace_pattern(torch.ops.edgecore_test.add_relu.default)(edge_of(function, x, y))
    assert targets(program).count(torch.ops.edgecore_test.add_relu.default) == 1
    assert torch.equal(torch.ops.edgecore_test.add_relu(x, y), (x + y).relu())
    check(program, function, x, y)
    retraced = torch.export.export(program.module(check_guards=False), (x, y)).run_decompositions()
    assert torch.ops.edgecore_test.add_relu.default not in targets(retraced)
    expanded = expand_bound_operators(program)
    check(expanded, function, x, y)
    assert targets(expanded).count(aten.relu.default) == 3


def test_a_program_with_backend_operators_compiles_once_they_are_expanded():
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    manager = to_edge(torch.export.export(Model(lambda s, x, y: (x + y).relu()).eval(), (x, y)))
    manager = manager.transform([replace_pattern(torch.ops.edgecore_test.add_relu.default)])
    with pytest.raises(CompileError, match="edgecore_test.add_relu"):
        manager.to_executorch()
    buffer = manager.to_executorch(ExecutorchBackendConfig(passes=[expand_bound_operators])).buffer
    torch.testing.assert_close(edgecore.load(buffer).forward(x, y), (x + y).relu())


def test_a_value_that_others_read_is_not_fused_into_a_pattern():
    function = lambda s, x, y: ((z := x + y), z.relu())
    program = replace_pattern(torch.ops.edgecore_test.add_relu.default)(edge_of(function, torch.ones(2), torch.ones(2)))
    assert torch.ops.edgecore_test.add_relu.default not in targets(program)


def test_bad_patterns_and_schemas_are_refused():
    with pytest.raises(CompileError, match="not in the library's namespace edgecore_test"):
        bind_pattern_to_op(library, "other::op(Tensor x) -> Tensor")
    with pytest.raises(CompileError, match="cannot be bound"):
        bind_pattern_to_op(library, "op(Tenzor x) -> Tensor")(add_relu)
    with pytest.raises(CompileError, match="has no pattern"):
        replace_pattern(aten.relu.default)
    with pytest.raises(CompileError, match="write it with overloads"):
        replace_pattern(torch.ops.edgecore_test.add_relu.default, lambda x, y: torch.relu(x + y))
