"""A part of a tensor is taken before the tensor is reshaped and permuted."""

import pytest
import torch
from edge_programs import agree, check, edge_of, targets
from torch import nn

from edgecore.passes import merge_views
from edgecore.passes.library.hoist_selects import hoist_selects

aten = torch.ops.aten


def moves(program):
    return [target for target in targets(program) if target not in (aten.relu.default, aten.add.Tensor)]


def hoisted(function, *inputs):
    program = merge_views(hoist_selects(edge_of(function, *inputs)))
    check(program, function, *inputs)
    return program


def test_the_parts_of_a_packed_projection_are_slices():
    def function(s, x):
        packed = x.relu().unflatten(-1, (3, 4)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
        return packed[0] + packed[1] + packed[-1]

    assert moves(hoisted(function, torch.randn(5, 2, 12))) == [aten.slice_copy.Tensor] * 3


def test_unbound_parts_have_a_dim_less():
    def function(s, x):
        q, k, v = x.relu().reshape(2, 5, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        return q + k + v

    program = hoisted(function, torch.randn(2, 5, 24))
    assert sorted(map(str, moves(program))) == sorted(
        map(str, [aten.slice_copy.Tensor, aten.view_copy.default, aten.permute_copy.default] * 3)
    )
    assert max(node.meta["val"].dim() for node in program.graph.nodes if node.op == "call_function") == 4


@pytest.mark.parametrize(
    "function",
    [
        lambda s, x: x.relu().transpose(0, 2)[1],
        lambda s, x: x.relu().view(6, 4)[2],
        lambda s, x: x.relu().view(2, 3, 2, 2)[:, :, 1],
        lambda s, x: x.relu().view(1, 2, 12)[:, -1],
        lambda s, x: x.relu().view(4, 3, 2).permute(2, 0, 1).reshape(2, 12)[1],
        lambda s, x: x.relu().unsqueeze(1)[:, 0],
        lambda s, x: x.transpose(0, 1)[1],
        lambda s, x: torch.stack(x.relu().view(2, 3, 1, 4).transpose(0, 3).unbind(1)),
    ],
)
def test_results_stay_the_same(function):
    hoisted(function, torch.randn(2, 3, 4))


def test_a_tensor_with_other_readers_stays_as_it_is():
    def function(s, x):
        turned = x.relu().transpose(0, 1)
        return turned[0], turned[:, 0], turned + 1

    assert aten.transpose_copy.int in moves(hoisted(function, torch.randn(2, 3, 4)))


def test_symbolic_sizes_around_the_selected_dim():
    class Split(nn.Module):
        def forward(self, x):
            q, k, v = x.relu().unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4).unbind(0)
            return q + k - v

    batch, length = torch.export.Dim("batch", max=8), torch.export.Dim("length", max=8)
    agree(
        Split(),
        (torch.randn(3, 5, 24),),
        others=[(torch.randn(2, 7, 24),)],
        dynamic_shapes=({0: batch, 1: length},),
    )


def test_attention_needs_no_five_dims():
    model = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    program = edge_of(lambda s, x: s.parts(x, x, x, need_weights=False)[0], torch.randn(2, 5, 8), parts=model)
    assert (
        max(node.meta["val"].dim() for node in program.graph.nodes if isinstance(node.meta.get("val"), torch.Tensor))
        < 5
    )
