"""Chains of views become one view, or none."""

import torch
from edge_programs import check, edge_of, targets

from edgecore.passes import merge_views

aten = torch.ops.aten


def test_chains_of_views_are_merged_or_disappear():
    def function(s, x):
        a = x.relu().view(2, 12).view(4, 6).unsqueeze(1).squeeze(1).view(2, 3, 4)
        b = x.relu().permute(2, 0, 1).permute(1, 2, 0).transpose(0, 1).transpose(1, 0)
        return a + b + x.relu().transpose(1, 2).permute(2, 0, 1).transpose(0, 1).permute(0, 1, 2)

    x = torch.randn(2, 3, 4)
    program = merge_views(edge_of(function, x))
    check(program, function, x)
    moves = [target for target in targets(program) if target not in (aten.relu.default, aten.add.Tensor)]
    assert moves in ([], [aten.permute_copy.default], [aten.clone.default])
