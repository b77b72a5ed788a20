"""Checks before and after each pass, and what is reported where a pass fails."""

import pytest
import torch
from edge_programs import Model, edge_of
from fake_backends import (
    CALL_OF_CONV,
    edge,
    exported,
)
from torch.fx import subgraph_rewriter

import edgecore
from edgecore.errors import CompileError
from edgecore.ir.graph import calls, edit
from edgecore.partition import CapabilityPartitioner
from edgecore.passes import ExportPass, PassBase, PassManager, PassResult, remove_dead_code
from edgecore.pipeline import to_edge, to_edge_transform_and_lower

aten = torch.ops.aten


def break_program(program):
    with edit(program) as graph_module:
        meta = calls(graph_module)[0].meta
        meta["val"] = meta["val"].to(torch.complex128)
    return program


def test_a_check_that_fails_after_a_pass_names_the_pass(monkeypatch):
    x = torch.randn(2)
    monkeypatch.delenv("EDGECORE_VERIFY_PASSES", raising=False)
    assert PassManager([break_program])(edge_of(lambda s, x: x + 1, x))
    monkeypatch.setenv("EDGECORE_VERIFY_PASSES", "1")
    with pytest.raises(CompileError, match="after the pass break_program: .*complex128"):
        PassManager([break_program])(edge_of(lambda s, x: x + 1, x))
    PassManager([break_program], suppress_check_failures=True)(edge_of(lambda s, x: x + 1, x))

    def no_relu(graph_module):
        if calls(graph_module, aten.relu.default):
            raise ValueError("a relu")

    manager = PassManager([remove_dead_code])
    manager.add_checks(no_relu)
    with pytest.raises(CompileError, match="after the pass remove_dead_code: a relu"):
        manager(edge_of(lambda s, x: x.relu(), x))


class Stumbles(ExportPass):
    def call_operator(self, op, args, kwargs, meta):
        return super().call_operator(op, args[: 7 if op is aten.convolution.default else None], kwargs, meta)


def drop_everything(program):
    raise LookupError("nothing\nto drop")


def test_a_pass_that_raises_is_named_with_the_node():
    with pytest.raises(CompileError, match="^the pass Stumbles failed at aten.convolution.default ") as error:
        PassManager([Stumbles()])(edge())
    assert CALL_OF_CONV in str(error.value)
    with pytest.raises(CompileError, match="^the pass drop_everything failed: LookupError: nothing; ") as error:
        to_edge_transform_and_lower(exported(), transform_passes=[drop_everything])
    assert isinstance(error.value.__cause__, LookupError)


def test_an_error_of_edgecore_in_a_pass_stays_as_it_is():
    def refuse(program):
        raise CompileError("not this one")

    with pytest.raises(CompileError, match="^not this one$"):
        PassManager([refuse])(edge())


def exported_sums(dtype=torch.float32):
    rows = torch.export.Dim("rows", min=2, max=8)
    x = torch.ones(4, 3, dtype=dtype)
    return torch.export.export(Model(lambda s, x: (x + x).relu().sum(0)), (x,), dynamic_shapes=(({0: rows},),))


def sums():
    return to_edge(exported_sums())


def rewrite(graph_module):
    """Edit as ExecuTorch's documentation shows: the calls that torch makes have no `val`."""
    replaced = subgraph_rewriter.replace_pattern_with_filters(
        graph_module,
        lambda x: aten.relu.default(aten.add.Tensor(x, x)),
        lambda x: aten.unsqueeze_copy.default(aten.mul.Tensor(x, x), 1),
    )
    assert len(replaced) == 1
    return PassResult(graph_module, True)


def rewrite_program(program):
    rewrite(program.graph_module)
    return program


class Rewrite(PassBase):
    def call(self, graph_module):
        return rewrite(graph_module)


class Plain(PassBase):
    """Inserts calls with plain FX code, of which one changes the shape that later nodes have."""

    def call(self, graph_module):
        (relu,) = calls(graph_module, aten.relu.default)
        with graph_module.graph.inserting_before(relu):
            product = graph_module.graph.call_function(aten.mul.Tensor, (relu.args[0], relu.args[0]))
            quarter = graph_module.graph.call_function(aten.mul.Tensor, (product, product))
            third = graph_module.graph.call_function(aten.div.Tensor, (quarter, product))
            relu.args = (graph_module.graph.call_function(aten.unsqueeze_copy.default, (third, 1)),)


@pytest.mark.parametrize(
    ("transform", "factor"),
    [(Rewrite(), 1), (rewrite_program, 1), (Plain(), 4)],
    ids=["pass_base", "program", "plain_fx"],
)
def test_calls_that_a_pass_leaves_without_val_are_computed_with_symbolic_sizes(transform, factor):
    edge = sums().transform([transform])
    program = edge.exported_program()
    expected = {node.name: str(tuple(node.meta["val"].shape)) for node in calls(program.graph_module)}
    assert list(expected.values())[-1] == "(1, 3)"
    assert all(shape.startswith(("(s", "(1, 3)")) for shape in expected.values())
    loaded = edgecore.load(edge.to_executorch().buffer)
    for rows in (2, 5):
        x = torch.rand(rows, 3)
        torch.testing.assert_close(loaded.forward(x), factor * (x * x).sum(0, keepdim=True))


def test_programs_that_users_edit_themselves_are_completed_at_each_entry():
    x = torch.rand(5, 3)
    expected = (x * x).sum(0, keepdim=True)

    def run(edge):
        return edgecore.load(edge.to_executorch().buffer).forward(x)

    edited = exported_sums()
    rewrite(edited.graph_module)
    torch.testing.assert_close(run(to_edge(edited)), expected)
    torch.testing.assert_close(edgecore.load(edgecore.compile(edited, (x,)).buffer).forward(x), expected)
    assert any("val" not in node.meta for node in calls(edited.graph_module))  # the caller's program does not change
    for continue_with in (
        lambda edge: edge,
        lambda edge: edge.transform([]),
        lambda edge: edge.to_backend(CapabilityPartitioner("EchoBackend", lambda program: lambda node: "none")),
    ):
        edge = sums()
        rewrite(edge.exported_program().graph_module)
        torch.testing.assert_close(run(continue_with(edge)), expected)


class Misuse(PassBase):
    def __init__(self, edit):
        self.edit = edit

    def call(self, graph_module):
        self.edit(graph_module.graph, *calls(graph_module, aten.add.Tensor, aten.relu.default))


def too_late(graph, add, relu):
    with graph.inserting_after(relu):
        relu.args = (graph.call_function(aten.neg.default, (add,)),)


def does_not_fit(graph, add, relu):
    with graph.inserting_before(relu):
        relu.args = (graph.call_function(aten.mm.default, (add, add)),)


def erases(graph, add, relu):
    add.users.clear()
    graph.erase_node(add)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (too_late, "aten.relu.default .*reads the node neg.*, which the graph does not compute before it"),
        (does_not_fit, "aten.mm.default .*cannot be computed"),
        (erases, "aten.relu.default .*reads the node .*add.*, which the graph does not compute before it"),
    ],
)
def test_a_graph_that_is_inconsistent_after_a_pass_is_one_error_with_pass_and_node(edit, message):
    with pytest.raises(CompileError, match=f"^after the pass Misuse: {message}"):
        sums().transform([Misuse(edit)])
