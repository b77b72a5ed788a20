"""Equal calls are merged where their results are equal."""

import torch
from edge_programs import check, edge_of, targets

from edgecore.passes import merge_common_subexpressions

aten = torch.ops.aten


def test_equal_calls_are_merged_but_not_random_ones_nor_other_numbers():
    def function(s, x):
        return x.exp() + x.exp(), x + 1, x + 1.0, x * 0.0, x * -0.0

    x = torch.tensor([1.0, -2.0])
    program = merge_common_subexpressions(edge_of(function, x))
    assert targets(program).count(aten.exp.default) == 1
    assert targets(program).count(aten.mul.Scalar) == 2
    check(program, function, x)
    noise = merge_common_subexpressions(edge_of(lambda s, x: torch.rand(4) - torch.rand(4), x))
    assert targets(noise).count(aten.rand.default) == 2
