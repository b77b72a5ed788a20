"""Decomposition into the operators of the edge dialect: the program computes what the model does."""

import operator

import pytest
import torch
from edge_programs import export
from torch import nn

from edgecore.ir.dialect.dim_orders import dim_order
from edgecore.ir.dialect.verifier import verify
from edgecore.ir.graph import calls
from edgecore.ir.program.copying import copy_program
from edgecore.passes.decompose import decompose
from edgecore.pipeline import to_edge

aten = torch.ops.aten


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
    "cosine_of_numbers": (lambda s, x: nn.functional.cosine_similarity(x.half(), x.half() + 1, dim=0), (), []),
    "chunk": (lambda s, x: torch.cat([part + 1 for part in x.chunk(3, 1)][::-1], 1), (2, 6), []),
    "scalars": (lambda s, x: (2 - x) / 3 + (x > 0) * 1.5, (4,), []),
    "interpolate": (lambda s, x: nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear"), (1, 2, 3, 4), []),
    "lerp": (lambda s, x: torch.lerp(x.transpose(0, 1), torch.ones(4, 3), 0.25), (3, 4), []),
    "index_fill": (lambda s, x: x.transpose(0, 1).index_fill(0, torch.arange(2), 0.5), (3, 4), []),
    "fold of no blocks": (lambda s, x: nn.functional.fold(x, (4, 4), (2, 2), stride=2), (0, 8, 4), []),
    "pooling to no rows": (lambda s, x: nn.functional.adaptive_avg_pool3d(x, (2, 0, 3)), (1, 2, 4, 4, 4), []),
    "einsum": (lambda s, x: torch.einsum("bij,bkj->bik", x, x), (2, 3, 4), []),
}


@pytest.mark.parametrize("name", DECOMPOSED)
def test_an_edge_program_equals_its_model(name):
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


def test_operators_that_are_preserved_are_not_decomposed():
    program = export(lambda s, x: nn.functional.hardswish(x), torch.randn(4))
    edge = decompose(copy_program(program), preserve=lambda node: node.target is aten.hardswish.default)
    assert [node.target for node in calls(edge.graph_module)] == [aten.hardswish.default]


def test_both_results_of_an_operator_are_read_by_getitem():
    program = export(lambda s, x: torch.max(x, 1), torch.randn(3, 4))
    edge = to_edge(program).exported_program()
    assert [node.target for node in calls(edge.graph_module)].count(operator.getitem) == 2


def test_a_broadcast_of_a_channels_last_image_of_width_1_has_a_dim_order():
    row, image = torch.randn(1, 4), torch.randn(2, 8, 3, 1).to(memory_format=torch.channels_last)
    model = export(lambda s, x, y: (x + y).relu() * y, row, image)
    assert dim_order(row + image) is None
    program = decompose(copy_program(model))
    verify(program)
    torch.testing.assert_close(program.module()(row, image), (row + image).relu() * image)
