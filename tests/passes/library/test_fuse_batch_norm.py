"""A batch norm after a convolution becomes part of its weights."""

import torch
from edge_programs import export
from torch import nn

from edgecore.ir.graph import calls
from edgecore.ir.program.copying import copy_program
from edgecore.passes.decompose import decompose
from edgecore.passes.library.fuse_batch_norm import fuse_batch_norm

aten = torch.ops.aten


def test_batch_norm_disappears_into_the_convolution():
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(6)
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2)
    nn.init.normal_(norm.weight)
    modules = [nn.Conv2d(3, 6, 3, bias=False), norm]
    x = torch.randn(2, 3, 8, 8)
    program = export(lambda s, x: s.parts[1](s.parts[0](x)), x, modules=modules)
    edge = fuse_batch_norm(decompose(copy_program(program)))
    assert [node.target for node in calls(edge.graph_module)] == [aten.convolution.default]
    assert len(edge.state_dict) == 2
    torch.testing.assert_close(edge.module(check_guards=False)(x), program.module()(x), atol=1e-5, rtol=1e-5)


def test_batch_norm_of_a_convolution_that_others_read_stays():
    modules = [nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)]
    x = torch.randn(1, 3, 4, 4)
    program = export(lambda s, x: s.parts[1](y := s.parts[0](x)) + y, x, modules=modules)
    edge = fuse_batch_norm(decompose(copy_program(program)))
    assert aten._native_batch_norm_legit_no_training.default in [n.target for n in calls(edge.graph_module)]
    torch.testing.assert_close(edge.module(check_guards=False)(x), program.module()(x))


def test_a_convolution_with_two_batch_norms_equals_eager():
    conv, first, second = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.BatchNorm2d(3)
    second.running_var.fill_(4)
    x = torch.randn(1, 3, 4, 4)
    program = export(
        lambda s, x: s.parts[1](s.parts[0](x)) + s.parts[2](s.parts[0](x)), x, modules=[conv, first, second]
    )
    edge = fuse_batch_norm(decompose(copy_program(program)))
    torch.testing.assert_close(edge.module(check_guards=False)(x), program.module()(x), atol=1e-5, rtol=1e-5)
