"""Calls whose result equals their input disappear."""

import torch
from edge_programs import check, export, targets

from edgecore.passes import EDGE_PASSES
from edgecore.passes.remove_identities import remove_identities
from edgecore.pipeline import to_edge

aten = torch.ops.aten


def edge_of(function, *inputs):
    """Lower a function without the passes that remove identities and merge views."""
    passes = EDGE_PASSES.skip("remove_identities", "merge_views")
    return to_edge(export(function, *inputs), passes=passes).exported_program()


def test_copies_views_and_conversions_that_change_nothing_disappear():
    function = lambda s, x: x.exp().clone().view(2, 3).permute(0, 1).to(torch.float32).relu()
    x = torch.randn(2, 3)
    program = edge_of(function, x)
    assert len(targets(program)) > 2
    program = remove_identities(program)
    check(program, function, x)
    assert targets(program) == [aten.exp.default, aten.relu.default]


def test_views_that_change_shape_order_or_dtype_stay():
    function = lambda s, x: (x.exp().view(3, 2), x.exp().permute(1, 0), x.exp().to(torch.float64))
    x = torch.randn(2, 3)
    program = remove_identities(edge_of(function, x))
    check(program, function, x)
    kept = [target for target in targets(program) if target is not aten.exp.default]
    assert len(kept) == 3


def test_a_copy_between_an_input_and_an_output_stays():
    program = remove_identities(edge_of(lambda s, x: x.clone(), torch.randn(3)))
    assert targets(program) == [aten.clone.default]
