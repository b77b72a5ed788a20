"""Operator support as data: reasons, partitions and documentation come from one table."""

from __future__ import annotations

import pytest
import torch

from edgecore.partition import (
    NodeQuery,
    OperatorRow,
    OperatorTable,
    at_most_dims,
    contiguous_only,
    integers_of_32_bits,
    no_empty_tensors,
    same_ranks,
    static_sizes,
)
from edgecore.pipeline import to_edge

aten = torch.ops.aten
FLOATS = (torch.float32, torch.float16)


def large_alpha(query):
    return "alpha is 2" if query.argument("alpha") == 2 else None


TABLE = OperatorTable(
    [OperatorRow(aten.mul.Tensor, FLOATS), OperatorRow(aten.add.Tensor, FLOATS, "no alpha | any shape", large_alpha)],
    common=[contiguous_only, at_most_dims(3)],
)


class Model(torch.nn.Module):
    def forward(self, a, b):
        c = torch.add(a * b, b, alpha=2)
        return (c - a) * b + c


def partition(*inputs, **options):
    program = to_edge(torch.export.export(Model(), inputs)).exported_program()
    result = TABLE.partitioner("ToyBackend", **options).partition(program)
    tags = {node.name: node.meta.get("delegation_tag") for node in program.graph.nodes if node.op == "call_function"}
    return tags, {unsupported.node: unsupported.reason for unsupported in result.unsupported_nodes}


def test_constraints_of_rows_give_reasons_and_partitions():
    tags, reasons = partition(torch.ones(2), torch.ones(2))
    assert reasons == {"add": "alpha is 2", "sub": "not among the backend's operators"}
    assert tags["mul"] and tags["mul_1"] and tags["mul_1"] == tags["add_1"] != tags["mul"]


def test_options_leave_out_small_partitions_and_operators():
    tags, reasons = partition(torch.ones(2), torch.ones(2), min_partition_size=2)
    assert reasons["mul"] == "in a partition of 1 operators, fewer than 2" and tags["mul"] is None and tags["mul_1"]
    tags, reasons = partition(torch.ones(2), torch.ones(2), operators=["aten.mul.Tensor"])
    assert tags["mul"] and reasons["add_1"] == "left out by an option"
    with pytest.raises(ValueError, match="no operator 'sub': there are add, aten.add.Tensor"):
        partition(torch.ones(2), torch.ones(2), operators=["sub"])


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ((torch.ones(2), torch.ones(2, dtype=torch.float64)), "input b is float64, not float32 or float16"),
        ((torch.ones(1, 1, 1, 1), torch.ones(1)), "input a has 4 dims, more than 3"),
        ((torch.ones(2, 3, 2, 2).to(memory_format=torch.channels_last), torch.ones(1)), "input a is not contiguous"),
    ],
)
def test_tensors_that_the_table_does_not_support_are_refused_with_a_reason(inputs, reason):
    assert partition(*inputs)[1]["mul"].startswith(reason)


def test_two_rows_for_one_operator_are_an_error():
    with pytest.raises(ValueError, match="two rows"):
        OperatorTable([OperatorRow(aten.mul.Tensor, FLOATS)] * 2)


def edge_program(function, *inputs):
    class Call(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rows = torch.nn.Buffer(torch.tensor([1, 0]))

        def forward(self, *args):
            return function(*args, self.rows)

    return to_edge(torch.export.export(Call(), inputs)).exported_program()


def reasons_of(table, program, **options):
    reasons = table.unsupported_reasons(program, **options)
    return [reasons(node) for node in program.graph.nodes if node.op == "call_function"]


def test_an_argument_of_any_dtype_is_left_to_the_rows_own_constraint():
    def constant_index(query):
        return None if query.is_constant(query.argument("index")) else "the index is not constant"

    program = edge_program(lambda x, rows: x.index_select(0, rows), torch.ones(2, 3))
    (target,) = (node.target for node in program.graph.nodes if node.op == "call_function")
    strict = OperatorTable([OperatorRow(target, FLOATS)])
    (reason,) = reasons_of(strict, program)
    assert "is int64, not float32" in reason
    table = OperatorTable([OperatorRow(target, FLOATS, "a constant index", constant_index, any_dtype=("index",))])
    assert reasons_of(table, program) == [None]
    program = edge_program(lambda x, i, rows: x.index_select(0, i), torch.ones(2, 3), torch.tensor([1]))
    assert reasons_of(table, program) == ["the index is not constant"]


def test_common_constraints_wait_until_the_graph_is_decomposed():
    table = OperatorTable([OperatorRow(aten.mul.Tensor, FLOATS)], common=[lambda query: "a layout"])
    program = edge_program(lambda x, rows: x * x, torch.ones(2, 3))
    assert reasons_of(table, program) == ["a layout"] and reasons_of(table, program, is_decomposed=False) == [None]


def test_a_table_may_ask_its_constraints_with_a_query_of_its_own():
    class Query(NodeQuery):
        device = "npu3"

    class Table(OperatorTable):
        def make_query(self, program, *, is_decomposed=True):
            make = super().make_query(program, is_decomposed=is_decomposed)
            return lambda node: Query(node, make(node).constants, is_decomposed)

    table = Table([OperatorRow(aten.mul.Tensor, FLOATS, "", lambda query: f"not on {query.device}")])
    program = edge_program(lambda x, rows: x * x, torch.ones(2, 3))
    assert reasons_of(table, program) == ["not on npu3"]


def test_operators_of_the_table_can_be_kept_from_being_decomposed():
    row = OperatorRow(aten.gelu.default, FLOATS, "exact only", do_not_decompose=True,
                      unsupported_reason=lambda query: None if query.argument("approximate") == "none" else "tanh")  # fmt: skip
    partitioner = OperatorTable([row]).partitioner("ToyBackend")

    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.gelu(x), torch.nn.functional.gelu(x, approximate="tanh")

    program = torch.export.export(Model(), (torch.ones(2),))
    operators, preserve = partitioner.ops_to_not_decompose(program)
    assert operators == (aten.gelu.default,)
    assert [preserve(node) for node in program.graph.nodes if node.target is aten.gelu.default] == [True, False]


def test_empty_tensors_symbolic_sizes_and_different_ranks_are_refused():
    class Model(torch.nn.Module):
        def forward(self, x, none):
            return torch.cat([x, none]) + 1

    rows = [OperatorRow(aten.cat.default, FLOATS, "", same_ranks), OperatorRow(aten.add.Scalar, FLOATS)]

    def reasons(constraints, *inputs, **options):
        program = to_edge(torch.export.export(Model(), inputs, **options)).exported_program()
        reason_of = OperatorTable(rows, constraints).unsupported_reasons(program)
        return [reason_of(node) for node in program.graph.nodes if node.op == "call_function"][:2]

    rule, varies = [no_empty_tensors, static_sizes("a size varies")], ({0: torch.export.Dim("n")}, None)
    assert reasons(rule, torch.ones(2, 3), torch.ones(1, 3)) == [None, None]
    assert reasons(rule, torch.ones(2, 3), torch.ones(0, 3)) == ["a tensor without elements", None]
    assert reasons(rule, torch.ones(2, 3), torch.ones(1, 3), dynamic_shapes=varies) == ["a size varies"] * 2
    assert reasons([], torch.ones(2, 3), torch.ones(0)) == ["tensors of different ranks", None]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x + 3_000_000_000, "other has integers of more than 32 bits"),
        (lambda x: x + (2**31 - 1), None),
        (lambda x: x.clamp(-(2**31) - 1, 5), "min has integers of more than 32 bits"),
        (lambda x: x + torch.tensor([1, -(2**31) - 1]), "other has integers of more than 32 bits"),
        (lambda x: torch.cat([x, torch.tensor([2**33])]), "tensors has integers of more than 32 bits"),
        (lambda x: x[1:], None),  # to 2**63 - 1
        (lambda x: x + torch.tensor([1.0, 1e30]), None),
    ],
)
def test_integers_beyond_32_bits_are_refused(function, reason):
    class Model(torch.nn.Module):
        def forward(self, x):
            return function(x)

    names = (aten.add.Scalar, aten.add.Tensor, aten.clamp.default, aten.cat.default, aten.slice_copy.Tensor)
    table = OperatorTable([OperatorRow(name, (torch.int64, torch.float32)) for name in names], [integers_of_32_bits])
    program = to_edge(torch.export.export(Model(), (torch.tensor([1, 2]),))).exported_program()
    reasons = table.unsupported_reasons(program)
    (found,) = [reasons(node) for node in program.graph.nodes if node.target in names]
    assert found == reason


def test_a_wrong_name_in_a_long_table_lists_similar_names():
    targets = [getattr(aten, name).default for name in ("relu", "sin", "cos", "tan", "exp", "log", "neg", "abs", "erf",
                                                         "floor", "ceil")]  # fmt: skip
    table = OperatorTable([OperatorRow(target, FLOATS) for target in targets])
    with pytest.raises(ValueError, match=r"no operator 'flor': there are floor, \.\.\."):
        table.check_names(["flor"])
    with pytest.raises(ValueError, match="no operator 'relu'"):
        table.check_names(["relu"], namespace="quantized_decomposed")
