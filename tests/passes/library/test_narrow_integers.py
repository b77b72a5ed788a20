"""Index arithmetic in 32 bits instead of 64."""

import torch
from edge_programs import Model, check, edge_of
from torch import nn

import edgecore
from edgecore.ir.graph import calls
from edgecore.passes import narrow_integers

aten = torch.ops.aten


def test_index_arithmetic_is_narrowed_and_runs():
    table = nn.Embedding(10, 4)

    def function(s, x):
        positions = (torch.arange(5) * 2 - 1).clamp(0, 9)
        best = x.argmax(1) + 1
        return s.table(positions), s.table(best), x.argmax(1), s.indices * 1, torch.gather(x, 1, s.indices[None, :1])

    indices, x = torch.tensor([1, 2]), torch.randn(3, 5)
    program = narrow_integers(edge_of(function, x, table=table, indices=indices))
    check(program, function, x, table=table, indices=indices)
    for node in calls(program.graph_module, aten.embedding.default):
        assert node.args[1].meta["val"].dtype == torch.int32
    for node in calls(program.graph_module, aten.argmax.default, aten.gather.default):
        assert all(source.meta["val"].dtype != torch.int32 for source in node.all_input_nodes)
    exported = torch.export.export(Model(function, table=table, indices=indices).eval(), (x,))
    lowered = edgecore.pipeline.to_edge_transform_and_lower(exported, transform_passes=[narrow_integers])
    expected = list(Model(function, table=table, indices=indices)(x))
    torch.testing.assert_close(edgecore.load(lowered.to_executorch().buffer).forward(x), expected)


def test_a_clamp_with_limits_beyond_32_bits_stays_wide():
    table = nn.Embedding(10, 4)
    function = lambda s, x: s.table(x.argmax(1).clamp(2**40, 3))
    program = narrow_integers(edge_of(function, torch.randn(3, 5), table=table))
    (clamp,) = calls(program.graph_module, aten.clamp.default)
    assert clamp.meta["val"].dtype == torch.int64
    check(program, function, torch.randn(3, 5), table=table)


def test_indices_that_do_not_fit_32_bits_stay_wide():
    table = nn.Embedding(4, 2)
    function = lambda s, x: s.table((torch.arange(3) * 2**31).clamp(0, 3)) + x
    program = narrow_integers(edge_of(function, torch.ones(2), table=table))
    assert all(node.meta["val"].dtype != torch.int32 for node in calls(program.graph_module))
