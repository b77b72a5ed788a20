"""The managers of ExecuTorch's interface: programs stay as they are, and the order of passes."""

import copy

import torch
from edge_programs import INPUTS, net
from torch.export import export

import edgecore
from edgecore.ir.graph import calls
from edgecore.passes import ExportPass
from edgecore.pipeline import ExecutorchBackendConfig, to_edge, to_edge_transform_and_lower

aten = torch.ops.aten


def targets(edge):
    return [node.target for node in calls(edge.exported_program().graph_module)]


def test_transform_passes_run_before_memory_passes_of_the_configuration():
    order = []

    def first(program):
        order.append("transform")
        return program

    def second(program):
        order.append("configuration")
        return program

    edge = to_edge_transform_and_lower(export(net(), INPUTS), transform_passes=[first])
    edge.to_executorch(ExecutorchBackendConfig(passes=[second]))
    assert order == ["transform", "configuration"]


def test_transform_returns_a_new_manager_and_leaves_the_old_one():
    class TanhToSigmoid(ExportPass):
        def call_operator(self, op, args, kwargs, meta):
            return super().call_operator(aten.sigmoid.default if op is aten.tanh.default else op, args, kwargs, meta)

    edge = to_edge(export(net(), INPUTS))
    changed = edge.transform([TanhToSigmoid()])
    assert aten.tanh.default in targets(edge) and aten.tanh.default not in targets(changed)
    torch.testing.assert_close(edgecore.load(edge.to_executorch().buffer).forward(*INPUTS), net()(*INPUTS))


def test_a_deep_copy_of_a_manager_keeps_the_names_of_inputs():
    edge = to_edge(export(torch.nn.Tanh(), (torch.randn(2),)))
    copied = copy.deepcopy(edge)
    names = [node.name for node in copied.exported_program().graph.nodes]
    assert names == ["input", "tanh", "output"] and copied.exported_program() is not edge.exported_program()
