"""Passes of users: classes that rewrite calls, as ExecuTorch's documentation shows them."""

import pytest
import torch
from edge_programs import Model, check, edge_of, targets
from fake_backends import delegate, edge, no_sin
from functorch.experimental import control_flow
from torch._higher_order_ops.scan import scan
from torch._subclasses.fake_tensor import FakeTensor

from edgecore.errors import CompileError
from edgecore.ir.dialect.verifier import verify
from edgecore.ir.graph import calls
from edgecore.partition import CapabilityPartitioner
from edgecore.passes import ExportPass, NodeMetadata, PassManager, ProxyValue
from edgecore.pipeline import to_edge

aten = torch.ops.aten


class AddToSubtract(ExportPass):
    def call_operator(self, op, args, kwargs, meta):
        if op != aten.add.Tensor:
            return super().call_operator(op, args, kwargs, meta)
        x, y = args
        negative = super().call_operator(aten.neg.default, (y,), {}, meta)
        return super().call_operator(aten.sub.Tensor, (x, negative), {}, meta)

    def ensures(self, graph_module):
        if calls(graph_module, aten.add.Tensor):
            raise ValueError("an addition is left")


class RemoveRelu(ExportPass):
    def call_operator(self, op, args, kwargs, meta):
        return args[0] if op == aten.relu.default else super().call_operator(op, args, kwargs, meta)

    def requires(self, graph_module):
        if not calls(graph_module, aten.relu.default):
            raise ValueError("no relu to remove")


def test_passes_written_as_in_the_documentation_rewrite_calls_and_check_their_graph():
    x, y = torch.randn(2), torch.randn(2)
    program = PassManager([AddToSubtract(), RemoveRelu()])(edge_of(lambda s, x, y: (x + y).relu(), x, y))
    check(program, lambda s, x, y: x + y, x, y)
    assert targets(program) == [aten.neg.default, aten.sub.Tensor]
    assert all(node.meta.get("stack_trace") for node in calls(program.graph_module))
    result = AddToSubtract()(program.graph_module)
    assert result.graph_module is program.graph_module
    assert not result.modified
    with pytest.raises(ValueError, match="no relu"):
        RemoveRelu()(program.graph_module)


class Recorder(ExportPass):
    """Overrides every method, and records which ones are called."""

    def __init__(self):
        self.called = []


def recording(name):
    def method(self, *args, **kwargs):
        self.called.append(name)
        return getattr(ExportPass, name)(self, *args, **kwargs)

    return method


HOOKS = (
    "placeholder", "output", "inputs", "call", "call_operator", "call_getitem", "call_sym", "call_cond", "call_while",
    "call_map", "call_scan", "call_delegate", "call_submodule",
)  # fmt: skip
for hook in HOOKS:
    setattr(Recorder, hook, recording(hook))


def all_kinds(self, x, pred, y):
    x = torch.cond(pred, lambda x: x + 1, lambda x: x - 1, (x,))
    x = control_flow.map(lambda row: row * 2, x)
    _, x = scan(lambda carry, row: (carry + row, carry * row), torch.zeros(3), x)
    _, x = torch.while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, x + 1), (torch.tensor(0), x))
    return x.split(1)[0].expand(y.shape[0] * 2, 3) + y.repeat(2, 1)


def all_kinds_program():
    inputs = (torch.randn(4, 3), torch.tensor(True), torch.randn(4, 3))
    shapes = (None, None, {0: torch.export.Dim("rows", min=2, max=8)})
    return to_edge(torch.export.export(Model(all_kinds), inputs, dynamic_shapes=(shapes,))).exported_program(), inputs


def test_every_method_that_a_subclass_overrides_is_called_and_the_graph_stays_as_it_is():
    program, inputs = all_kinds_program()
    expected = program.module(check_guards=False)(*inputs)
    before = [(node.name, node.meta) for node in program.graph.nodes]
    recorder = Recorder()
    assert not recorder(program.graph_module).modified
    assert [(node.name, node.meta) for node in program.graph.nodes] == before
    lowered = delegate(edge(), CapabilityPartitioner("fake", no_sin))
    assert not recorder(lowered.graph_module).modified
    assert set(recorder.called) == set(HOOKS)
    torch.testing.assert_close(program.module(check_guards=False)(*inputs), expected)


class AddToMultiply(ExportPass):
    def call_operator(self, op, args, kwargs, meta):
        op = aten.mul.Tensor if op is aten.add.Tensor else op
        return super().call_operator(op, args, kwargs, meta)


def test_bodies_of_branches_and_loops_are_rewritten():
    x = torch.randn(4, 3)

    def function(s, x, pred):
        x = torch.cond(pred, lambda x: x + x, lambda x: x.relu(), (x,))
        return control_flow.map(lambda row: row + row, x)

    def expected(x, pred):
        return (x * x if pred else x.relu()) ** 2

    program = PassManager([AddToMultiply()])(edge_of(function, x, torch.tensor(True)))
    verify(program)
    for pred in (True, False):
        got = program.module(check_guards=False)(x, torch.tensor(pred))
        torch.testing.assert_close(got, expected(x, pred))


class Ends(ExportPass):
    """Negates inputs and results."""

    def placeholder(self, name, arg, meta):
        assert isinstance(arg, FakeTensor) and meta["val"] is arg
        value = super().placeholder(name, arg, meta)
        return self.call_operator(aten.neg.default, (value,), {}, NodeMetadata())

    def output(self, results, meta):
        return super().output([self.call_operator(aten.neg.default, (r,), {}, meta) for r in results], meta)


def test_inputs_and_outputs_can_be_followed_and_preceded_by_calls():
    x, y = torch.randn(2), torch.randn(2)
    program = PassManager([Ends()])(edge_of(lambda s, x, y: x - y, x, y))
    check(program, lambda s, x, y: x - y, x, y)
    assert [node.op for node in program.graph.nodes][:2] == ["placeholder", "placeholder"]


class DoubleByShape(ExportPass):
    """Reads `data` and `node` of values, and calls the visited operator twice."""

    def call_operator(self, op, args, kwargs, meta):
        if op is not aten.tanh.default:
            return super().call_operator(op, args, kwargs, meta)
        (x,) = args
        assert x.is_tensor() and x.to_tensor() is x.data and x.node.meta["val"] is x.data and x.proxy.node is x.node
        meta["tried"] = True
        first = super().call_operator(op, args, kwargs, meta)
        sizes = self.call_size_operator_all(first, meta)
        full = super().call_operator(aten.full.default, (sizes, x.data.dim()), {}, meta)
        return super().call_operator(aten.mul.Tensor, (super().call_operator(op, (first,), {}, meta), full), {}, meta)


def test_values_have_data_and_node_and_symbolic_sizes_stay():
    x = torch.randn(3, 2)
    exported = torch.export.export(
        Model(lambda s, x: x.tanh()), (x,), dynamic_shapes=(({0: torch.export.Dim("n", max=8)},),)
    )
    program = to_edge(exported).transform([DoubleByShape()]).exported_program()
    for rows in (3, 5):
        x = torch.randn(rows, 2)
        torch.testing.assert_close(program.module(check_guards=False)(x), x.tanh().tanh() * 2)
    assert all(node.meta.get("tried") for node in calls(program.graph_module, aten.tanh.default))
    assert str(calls(program.graph_module)[-1].meta["val"].shape[0]) == str(
        next(iter(program.graph.nodes)).meta["val"].shape[0]
    )


def test_numbers_among_values_convert_and_symbols_do_not():
    graph = torch.fx.Graph()
    node = graph.placeholder("n")
    assert int(ProxyValue(3, node)) == 3 and float(ProxyValue(0.5, node)) == 0.5 and not ProxyValue(False, node)
    assert list(range(ProxyValue(2, node))) == [0, 1] and list(ProxyValue((1, 2), node)) == [1, 2]
    size = all_kinds_program()[0].graph_module.graph.find_nodes(op="placeholder")[-1].meta["val"].shape[0]
    for convert in (int, float, bool, range):
        with pytest.raises(CompileError, match="known at run time only"):
            convert(ProxyValue(size, node))
    with pytest.raises(CompileError, match="not a tensor"):
        ProxyValue(1, node).to_tensor()
    with pytest.raises(CompileError, match="cannot set the entry 'val'"):
        NodeMetadata()["val"] = 1


class DropsInput(ExportPass):
    def placeholder(self, name, arg, meta):
        return super().placeholder(name, arg, meta) if name == "args_0" else arg


class ConcreteInputs(ExportPass):
    seen = None

    def inputs(self, graph_module):
        return [torch.full((2,), 7.0)]

    def placeholder(self, name, arg, meta):
        self.seen = arg
        return super().placeholder(name, arg, meta)


def test_inputs_may_be_concrete_but_not_removed():
    x = torch.randn(2)
    with pytest.raises(CompileError, match="changed the inputs"):
        PassManager([DropsInput()])(edge_of(lambda s, x, y: x * 2, x, torch.randn(2)))
    concrete = ConcreteInputs()
    check(PassManager([concrete, AddToMultiply()])(edge_of(lambda s, x: x + x, x)), lambda s, x: x * x, x)
    assert concrete.seen.tolist() == [7.0, 7.0]


class BuiltinNames(torch.nn.Module):
    def forward(self, input, type, max, id_1, id):
        return input + type + max + id_1 + id


def test_inputs_named_as_builtins_of_python_keep_their_names():
    inputs = tuple(torch.randn(2) for _ in range(5))
    edge = to_edge(torch.export.export(BuiltinNames(), inputs))
    names = [node.name for node in edge.exported_program().graph.nodes][:5]
    program = edge.transform([AddToMultiply()]).exported_program()
    assert [node.name for node in program.graph.nodes][:5] == names == ["input", "type", "max", "id_1", "id"]
    torch.testing.assert_close(program.module(check_guards=False)(*inputs), torch.stack(inputs).prod(0))
    linear = to_edge(torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),)))
    assert linear.transform([AddToMultiply()]).exported_program().graph_signature.user_inputs == ("input",)
