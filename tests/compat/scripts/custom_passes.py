"""Custom compiler passes: one to one, one to several, one to none, over whole graphs, and in a manager of passes."""

import torch
from executorch.exir import to_edge
from executorch.exir.backend.canonical_partitioners.pattern_op_partitioner import generate_pattern_op_partitions
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.pass_base import ExportPass, PassBase, PassResult
from executorch.exir.pass_manager import PassManager
from executorch.exir.passes import ScalarToTensorPass
from torch.export import export
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.fx.passes.utils.matcher_utils import SubgraphMatcher


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


class Model(torch.nn.Module):
    def forward(self, x, y):
        return torch.neg(torch.tanh(x) + y)


inputs = (torch.randn(3), torch.randn(3))
expected = torch.sigmoid(inputs[0]) * inputs[1] - inputs[1]
edge = to_edge(export(Model(), inputs)).transform([TanhToSigmoid(), AddToMulSub(), RemoveNeg()])
torch.testing.assert_close(edge.exported_program().module()(*inputs), expected)

graph_module = to_edge(export(Model(), inputs)).exported_program().graph_module
assert torch.ops.aten.sigmoid.default in {
    node.target for node in TanhToSigmoid()(graph_module).graph_module.graph.nodes
}
count = CountCalls()
checked = []
manager = PassManager(passes=[AddToMulSub(), count], run_checks_after_each_pass=True, suppress_check_failures=False)
manager.add_checks(lambda module: checked.append(module))
assert manager(graph_module).graph_module is graph_module and count.calls == 4 and len(checked) == 2


class Doubled(ExportPass):
    def call_operator(self, op, args, kwargs, meta):
        if op != torch.ops.aten.neg.default:
            return super().call_operator(op, args, kwargs, meta)
        return super().call_operator(torch.ops.aten.mul.Tensor, (args[0], torch.tensor(2.0)), {}, meta)


edge = to_edge(export(Model(), inputs)).transform([Doubled(), ScalarToTensor(), ScalarToTensorPass()])
torch.testing.assert_close(edge.exported_program().module()(*inputs), (torch.tanh(inputs[0]) + inputs[1]) * 2)


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
assert [sorted(node.name for node in partition.nodes) for partition in partitions] == [["add", "neg"]]
assert len(SubgraphMatcher(pattern).match(graph_module.graph)) == 1
proposed = CapabilityBasedPartitioner(graph_module, AddSupport(), allows_single_node_partition=True)
assert len(proposed.propose_partitions()) == 1
