"""Symbolic sizes are read from the inputs, not from intermediate tensors."""

import torch
from torch import nn
from torch.export import Dim

import edgecore

B, T = Dim("b", min=1, max=8), Dim("t", min=3, max=12)


def test_sizes_are_read_from_the_inputs_and_views_infer_one():
    class Heads(nn.Module):
        def forward(self, x):
            y = (x * 2).transpose(0, 1).exp()
            return y.reshape(y.shape[0], 4, 2).sin() + y.shape[0] * y.shape[1]

    exported = torch.export.export(Heads().eval(), (torch.randn(8, 5),), dynamic_shapes=({1: T},))
    graph = edgecore.to_edge(exported).exported_program().graph
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    sizes = [node for node in graph.nodes if node.target is torch.ops.aten.sym_size.int]
    assert [node.args for node in sizes] == [(inputs[-1], 1)]
    views = [node.args[1] for node in graph.nodes if node.target is torch.ops.aten.view_copy.default]
    assert [list(view) for view in views] == [[-1, 4, 2]]
