"""A partitioner that tags branches itself, as scripts of ExecuTorch write it."""

from __future__ import annotations

import torch
from fake_backends import echo_backend  # noqa: F401

from edgecore.compat.lowering import to_edge
from edgecore.compat.partitioners import (
    Partitioner,
    get_cond_while_submodules,
    get_control_flow_submodules,
    get_lowered_submodules,
)
from edgecore.partition import DelegationSpec, PartitionResult


class Products(Partitioner):
    """Tags products, each with a number that starts at 0 in every graph."""

    def tag(self, graph_module):
        products = [node for node in graph_module.graph.nodes if node.target is torch.ops.aten.mul.Tensor]
        for number, node in enumerate(products):
            node.meta["delegation_tag"] = f"tag{number}"
        for _, body, _ in get_control_flow_submodules(graph_module):
            self.tag(body)

    def partition(self, exported_program):
        self.tag(exported_program.graph_module)
        tags = {f"tag{number}": DelegationSpec("EchoBackend", ()) for number in range(3)}
        return PartitionResult(exported_program, tags)


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: (x * x).sin() * x, lambda x: x + 1, (x * x,))


def test_a_partitioner_may_tag_branches_with_the_method(echo_backend):  # noqa: F811
    edge = to_edge(torch.export.export(Model(), (torch.ones(3),))).to_backend(Products())
    graph_module = edge.exported_program().graph_module
    assert len(get_lowered_submodules(graph_module)) == 1
    (_, true, node), (_, false, _) = get_control_flow_submodules(graph_module)
    assert node.target is torch.ops.higher_order.cond
    assert [len(get_lowered_submodules(body)) for body in (true, false)] == [2, 0]
    assert get_cond_while_submodules(graph_module) == get_control_flow_submodules(graph_module)
    x = torch.rand(3)
    torch.testing.assert_close(edge.exported_program().module()(x), Model()(x))
