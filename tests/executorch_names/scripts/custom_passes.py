"""Custom compiler passes: one to one, one to several, one to none, over whole graphs, and in a manager of passes."""

import torch
from executorch.exir import to_edge
from executorch.exir.backend.canonical_partitioners.pattern_op_partitioner import generate_pattern_op_partitions
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.pass_base import ExportPass, PassBase, PassResult
from executorch.exir.pass_manager import PassManager
from executorch.exir.passes import ScalarToTensorPass
from executorch.exir.passes.constant_prop_pass import constant_prop_pass
from torch.export import export
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase, any_chain
from torch.fx.passes.utils.matcher_utils import SubgraphMatcher
from torch.fx.passes.utils.source_matcher_utils import get_source_partitions


class TanhToSigmoid(ExportPass):
    def call_operator(self, op, args, kwargs, meta):
        if op != exir_ops.edge.aten.tanh.default:
            return super().call_operator(op, args, kwargs, meta)
        return super().call_operator(exir_ops.edge.aten.sigmoid.default, args, kwargs, meta)


class AddToMulSub(ExportPass):
    def call_operator(self, op, args, kwargs, meta):
        if op != torch.ops.aten.add.Tensor:
            return super().call_operator(op, args, kwargs, meta)
        x, y = args
        product = super().call_operator(torch.ops.aten.mul.Tensor, (x, y), {}, meta)
        return super().call_operator(torch.ops.aten.sub.Tensor, (product, y), {}, meta)


class RemoveNeg(ExportPass):
    def call_operator(self, op, args, kwargs, meta):
        if op not in (torch.ops.aten.neg.default,):
            return super().call_operator(op, args, kwargs, meta)
        return args[0]


class ScalarToTensor(ExportPass):
    def call_operator(self, op, args, kwargs, meta):
        schema = op._schema.arguments

        def coerce(value, argument):
            is_number = isinstance(value, (float, int, bool)) and type(argument.type) is torch.TensorType
            return torch.tensor(value) if is_number else value

        args = tuple(coerce(value, argument) for value, argument in zip(args, schema, strict=False))
        return super().call_operator(op, args, kwargs, meta)


class CountCalls(PassBase):
    def requires(self, graph_module):
        if not len(graph_module.graph.nodes):
            raise ValueError("an empty graph")

    def call(self, graph_module):
        self.calls = sum(node.op == "call_function" for node in graph_module.graph.nodes)
        return PassResult(graph_module, False)


# %% one to one, one to several, one to none
class Model(torch.nn.Module):
    def forward(self, x, y):
        return torch.neg(torch.tanh(x) + y)


inputs = (torch.randn(3), torch.randn(3))
expected = torch.sigmoid(inputs[0]) * inputs[1] - inputs[1]
edge = to_edge(export(Model(), inputs)).transform([TanhToSigmoid(), AddToMulSub(), RemoveNeg()])
torch.testing.assert_close(edge.exported_program().module()(*inputs), expected)

# %% a pass over a whole graph
graph_module = to_edge(export(Model(), inputs)).exported_program().graph_module
assert torch.ops.aten.sigmoid.default in {
    node.target for node in TanhToSigmoid()(graph_module).graph_module.graph.nodes
}

# %% a manager of passes, with checks
count = CountCalls()
checked = []
manager = PassManager(passes=[AddToMulSub(), count], run_checks_after_each_pass=True, suppress_check_failures=False)
manager.add_checks(lambda module: checked.append(module))
assert manager(graph_module).graph_module is graph_module and count.calls == 4 and len(checked) == 2


# %% a pass that is a function of a graph module
def tanh_to_sigmoid(graph_module):
    for node in graph_module.graph.find_nodes(op="call_function", target=exir_ops.edge.aten.tanh.default):
        node.target = exir_ops.edge.aten.sigmoid.default


edge = to_edge(export(Model(), inputs)).transform(PassManager(passes=[tanh_to_sigmoid, AddToMulSub(), RemoveNeg()]))
torch.testing.assert_close(edge.exported_program().module()(*inputs), expected)


# %% numbers become tensors
class Doubled(ExportPass):
    def call_operator(self, op, args, kwargs, meta):
        if op != torch.ops.aten.neg.default:
            return super().call_operator(op, args, kwargs, meta)
        return super().call_operator(torch.ops.aten.mul.Tensor, (args[0], torch.tensor(2.0)), {}, meta)


edge = to_edge(export(Model(), inputs)).transform([Doubled(), ScalarToTensor(), ScalarToTensorPass()])
torch.testing.assert_close(edge.exported_program().module()(*inputs), (torch.tanh(inputs[0]) + inputs[1]) * 2)


# %% partitions of patterns and of operators
class Sums(torch.nn.Module):
    def forward(self, x, y):
        return x + y


class NegSupport(OperatorSupportBase):
    def is_node_supported(self, submodules, node):
        return node.target == torch.ops.aten.neg.default


class AddSupport(OperatorSupportBase):
    def is_node_supported(self, submodules, node):
        return node.op == "call_function" and node.target in [torch.ops.aten.add.Tensor]


pattern = to_edge(export(Sums(), inputs)).exported_program().graph_module.graph
graph_module = to_edge(export(Model(), inputs)).exported_program().graph_module
supported = NegSupport()
partitions = generate_pattern_op_partitions(graph_module, patterns=[pattern], op_support=supported)
names = [sorted(node.name for node in partition.nodes) for partition in partitions]
assert names == [["aten_add_tensor", "aten_neg_default"]]
assert len(SubgraphMatcher(pattern).match(graph_module.graph)) == 1
proposed = CapabilityBasedPartitioner(graph_module, AddSupport(), allows_single_node_partition=True)
assert len(proposed.propose_partitions()) == 1


# %% a pass that requires what it replaces
class ReplaceTarget(PassBase):
    def __init__(self, old, new):
        self.old, self.new = old, new

    def requires(self, graph_module):
        if not any(node.target == self.old for node in graph_module.graph.nodes):
            raise ValueError(f"no {self.old}")

    def call(self, graph_module):
        for node in graph_module.graph.nodes:
            if node.op == "call_function" and node.target == self.old:
                node.target = self.new
        return PassResult(graph_module, True)

    def ensures(self, graph_module):
        assert not any(node.target == self.old for node in graph_module.graph.nodes)


add, mul, div = torch.ops.aten.add.Tensor, torch.ops.aten.mul.Tensor, torch.ops.aten.div.Tensor
graph_module = to_edge(export(Sums(), inputs)).exported_program().graph_module
assert mul in {node.target for node in ReplaceTarget(add, mul)(graph_module).graph_module.graph.nodes}
try:
    ReplaceTarget(add, mul)(graph_module)
except ValueError as error:
    print(error)
else:
    raise AssertionError("a pass ran without what it requires")


# %% a check that fails after a pass
def is_division(graph_module):
    if any(node.op == "call_function" and node.target != div for node in graph_module.graph.nodes):
        raise ValueError("the operator should be a division")


manager = PassManager(passes=[ReplaceTarget(add, div), ReplaceTarget(div, mul)], run_checks_after_each_pass=True)
manager.add_checks(is_division)
try:
    manager(to_edge(export(Sums(), inputs)).exported_program().graph_module)
except Exception as error:
    print(error)
else:
    raise AssertionError("a failed check was passed over")


# %% match a pattern with weights
class WithWeights(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight, self.bias = torch.nn.Parameter(torch.ones(size, size)), torch.nn.Parameter(torch.ones(size, size))

    def forward(self, x):
        return torch.ops.aten.addmm.default(self.bias, x, self.weight)


large, small = (to_edge(export(WithWeights(n), (torch.rand(n, n),))).exported_program().graph for n in (3, 5))
matcher = SubgraphMatcher(small, match_output=False, match_placeholder=False, remove_overlapping_matches=True)
(match,) = matcher.match(large)
assert any(node.target == torch.ops.aten.addmm.default for node in match.nodes_map.values())

# %% partitions of any of several supports
proposed = CapabilityBasedPartitioner(
    to_edge(export(Model(), inputs)).exported_program().graph_module,
    any_chain(NegSupport(), AddSupport()),
    allows_single_node_partition=True,
).propose_partitions()
assert [sorted(node.name for node in partition.nodes) for partition in proposed] == [
    ["aten_add_tensor", "aten_neg_default"]
]


# %% partitions by the modules of the source
class TwoLayers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear1, self.relu, self.linear2 = torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Linear(3, 5)

    def forward(self, x):
        return self.linear2(self.relu(self.linear1(self.linear1(x))))


edge_graph = to_edge(export(TwoLayers(), (torch.randn(3, 3),), strict=True)).exported_program().graph_module.graph
partitions = get_source_partitions(edge_graph, [torch.nn.Linear, torch.nn.ReLU])
assert len(partitions[torch.nn.Linear]) == 3 and len(partitions[torch.nn.ReLU]) == 1


# %% operators on constants
class Halves(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        return x + self.weight.neg().div(2)


folded = constant_prop_pass(to_edge(export(Halves(), (torch.randn(3),))).exported_program())
assert [node.target for node in folded.graph.nodes if node.op == "call_function"] == [torch.ops.aten.add.Tensor]
