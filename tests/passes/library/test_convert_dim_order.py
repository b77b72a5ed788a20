"""Programs that compute in channels last, or in contiguous memory, by choice of the user."""

import pytest
import torch
from edge_programs import Model, check, edge_of
from torch import nn

import edgecore
from edgecore.errors import CompileError
from edgecore.ir.graph import calls
from edgecore.passes import convert_dim_order

aten = torch.ops.aten


def test_the_dim_order_is_converted_both_ways():
    conv = nn.Conv2d(3, 8, 3)
    function = lambda s, x: s.conv(x).relu() + 1
    x = torch.randn(1, 3, 6, 6)
    program = convert_dim_order(torch.channels_last)(edge_of(function, x, conv=conv))
    (node,) = calls(program.graph_module, aten.convolution.default)
    assert not node.meta["val"].is_contiguous()
    assert node.meta["val"].is_contiguous(memory_format=torch.channels_last)
    check(program, function, x, conv=conv)
    y = x.to(memory_format=torch.channels_last)
    back = convert_dim_order(torch.contiguous_format)(edge_of(function, y, conv=conv))
    assert calls(back.graph_module, aten.convolution.default)[0].meta["val"].is_contiguous()
    check(back, function, y, conv=conv)
    for shape, given, one in ((torch.channels_last, x, program), (torch.contiguous_format, y, back)):
        exported = torch.export.export(Model(function, conv=conv).eval(), (given,))
        lowered = edgecore.pipeline.to_edge_transform_and_lower(exported, transform_passes=[convert_dim_order(shape)])
        result = edgecore.load(lowered.to_executorch().buffer).forward(given)
        torch.testing.assert_close(result, one.module(check_guards=False)(given), atol=1e-5, rtol=1e-5)
    with pytest.raises(CompileError, match="channels_last or contiguous_format"):
        convert_dim_order(torch.preserve_format)


def test_a_delegate_keeps_the_dim_order_that_it_was_compiled_for():
    """Passes after delegation may change the dim order of what a delegate reads: a copy changes it back."""
    partitioner = pytest.importorskip("edgecore_xnnpack.partitioner").XnnpackPartitioner()
    function = lambda s, x: s.conv(x.sinh()).relu().sinh()
    x, conv = torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last), nn.Conv2d(3, 8, 3)
    exported = torch.export.export(Model(function, conv=conv).eval(), (x,))
    edge = edgecore.pipeline.to_edge(exported).to_backend(partitioner)
    edge = edge.transform([convert_dim_order(torch.contiguous_format)])
    assert (
        len(calls(edge.exported_program().graph_module, aten.clone.default)) == 2
    )  # the input; the delegate's operand
    result = edgecore.load(edge.to_executorch().buffer).forward(x)
    torch.testing.assert_close(result, Model(function, conv=conv)(x), atol=1e-5, rtol=1e-5)
