"""The edge dialect: functional, decomposed, verified; and equal to the model."""

import operator

import pytest
import torch
from torch import nn

from edgecore.ir.graph import calls
from edgecore.ir.program import copy_program
from edgecore.ir.tensors import dim_order
from edgecore.ir.verifier import VerificationError, verify
from edgecore.passes.decompose import decompose
from edgecore.passes.functionalize import functionalize
from edgecore.passes.fuse_batch_norm import fuse_batch_norm
from edgecore.pipeline import to_edge

aten = torch.ops.aten


class Model(nn.Module):
    def __init__(self, function, *modules):
        super().__init__()
        self.function, self.parts = function, nn.ModuleList(modules)

    def forward(self, *args):
        return self.function(self, *args)


def export(function, *inputs, modules=()):
    return torch.export.export(Model(function, *modules).eval(), inputs)


def inplace_chain(self, x):
    y = x + 1
    y.relu_()
    y.mul_(2)
    return y.sigmoid_() + y


def write_through_view(self, x):
    y = x + 1
    y[0].mul_(3)
    return y


def write_under_view(self, x):
    y = x + 1
    z = y.view(-1)
    y.relu_()
    return z + 1


def write_into_input(self, x):
    x.add_(1)
    return x * 2


def write_after_dropout(self, x):
    y = x + 1
    z = nn.functional.dropout(y, training=False)
    y.relu_()
    return z + y


@pytest.mark.parametrize(
    "function", [inplace_chain, write_through_view, write_under_view, write_after_dropout, write_into_input]
)
def test_functionalise_keeps_the_meaning_and_agrees_with_torch(function):
    x = torch.randn(3, 4)
    program = export(function, x.clone())
    functional = functionalize(copy_program(program))
    assert not any(
        node.target._schema.is_mutable
        for node in calls(functional.graph_module)
        if isinstance(node.target, torch._ops.OpOverload)
    )
    expected = Model(function)(x.clone())
    torch.testing.assert_close(functional.module(check_guards=False)(x.clone()), expected)
    if function is write_after_dropout:
        return  # torch makes the dropout a copy
    by_torch = program.run_decompositions({}).module(check_guards=False)
    torch.testing.assert_close(by_torch(x.clone()), expected)


def test_the_users_program_is_left_alone():
    program = export(inplace_chain, torch.randn(3, 4))
    before = program.graph_module.code
    to_edge(program)
    assert program.graph_module.code == before


DECOMPOSED = {
    "conv1d": (lambda s, x: s.parts[0](x), (2, 4, 9), [nn.Conv1d(4, 6, 3, padding="same")]),
    "conv_transpose": (lambda s, x: s.parts[0](x), (1, 4, 5, 5), [nn.ConvTranspose2d(4, 2, 3, 2, 1, 1)]),
    "hardswish": (lambda s, x: nn.functional.hardswish(x), (3, 5), []),
    "silu_inplace": (lambda s, x: nn.functional.silu(x * 1, inplace=True), (3, 5), []),
    "layer_norm": (lambda s, x: s.parts[0](x), (2, 7, 8), [nn.LayerNorm(8)]),
    "rms_norm": (lambda s, x: s.parts[0](x), (2, 7, 8), [nn.RMSNorm(8)]),
    "cosine": (lambda s, x: nn.functional.cosine_similarity(x, x + 1, dim=1), (2, 7, 8), []),
    "group_norm": (lambda s, x: s.parts[0](x), (2, 8, 4, 4), [nn.GroupNorm(2, 8)]),
    "adaptive": (lambda s, x: nn.functional.adaptive_avg_pool2d(x, (3, 2)), (1, 4, 7, 6), []),
    "attention": (lambda s, x: nn.functional.scaled_dot_product_attention(x, x, x), (1, 2, 6, 4), []),
    "causal": (lambda s, x: nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True), (1, 2, 6, 4), []),
    "matmul_4d": (lambda s, x: x @ x.transpose(-1, -2), (2, 3, 4, 5), []),
    "matmul_broadcast": (lambda s, x: x @ torch.ones(5, 2), (2, 3, 4, 5), []),
    "permute_then_add": (lambda s, x: x.permute(0, 2, 3, 1) + x.permute(0, 2, 3, 1), (1, 3, 4, 5), []),
    "chunk": (lambda s, x: torch.cat([part + 1 for part in x.chunk(3, 1)][::-1], 1), (2, 6), []),
    "scalars": (lambda s, x: (2 - x) / 3 + (x > 0) * 1.5, (4,), []),
    "interpolate": (lambda s, x: nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear"), (1, 2, 3, 4), []),
    "einsum": (lambda s, x: torch.einsum("bij,bkj->bik", x, x), (2, 3, 4), []),
}


@pytest.mark.parametrize("name", DECOMPOSED)
def test_edge_program_computes_what_the_model_does(name):
    function, shape, modules = DECOMPOSED[name]
    torch.manual_seed(0)
    x = torch.randn(shape)
    program = export(function, x, modules=modules)
    edge = to_edge(program).exported_program()
    verify(edge)
    torch.testing.assert_close(edge.module(check_guards=False)(x), program.module()(x), atol=2e-6, rtol=1e-5)
    for node in calls(edge.graph_module):
        vals = node.meta["val"] if isinstance(node.meta["val"], (tuple, list)) else (node.meta["val"],)
        assert all(dim_order(val) == tuple(range(val.dim())) for val in vals), node


def test_kept_operators_stay_whole():
    program = export(lambda s, x: nn.functional.hardswish(x), torch.randn(4))
    edge = decompose(copy_program(program), preserve=lambda node: node.target is aten.hardswish.default)
    assert [node.target for node in calls(edge.graph_module)] == [aten.hardswish.default]


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


def test_shared_weights_stay_shared_and_right():
    conv, first, second = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.BatchNorm2d(3)
    second.running_var.fill_(4)
    x = torch.randn(1, 3, 4, 4)
    program = export(
        lambda s, x: s.parts[1](s.parts[0](x)) + s.parts[2](s.parts[0](x)), x, modules=[conv, first, second]
    )
    edge = fuse_batch_norm(decompose(copy_program(program)))
    torch.testing.assert_close(edge.module(check_guards=False)(x), program.module()(x), atol=1e-5, rtol=1e-5)


def test_verifier_names_node_rule_and_line():
    program = export(lambda s, x: torch.special.airy_ai(x), torch.randn(3))
    with pytest.raises(VerificationError, match=r"special_airy_ai.*node .*test_decompose\.py:\d+.*not an operator"):
        to_edge(program)


def test_verifier_refuses_views_in_place_operators_and_strides():
    for function, text in (
        (lambda s, x: x.view(-1), "not an operator of the edge dialect"),
        (lambda s, x: x.sin().relu_(), "not an operator of the edge dialect"),
    ):
        with pytest.raises(VerificationError, match=text):
            verify(export(function, torch.randn(2, 3)))


def test_getitem_of_two_results():
    program = export(lambda s, x: torch.max(x, 1), torch.randn(3, 4))
    edge = to_edge(program).exported_program()
    assert [node.target for node in calls(edge.graph_module)].count(operator.getitem) == 2
