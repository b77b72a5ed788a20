"""Taps of a kernel that only ever meet padding are cut off."""

import torch
from torch import nn

from edgecore.ir.dialect.verifier import verify
from edgecore.ir.graph import calls
from edgecore.pipeline import to_edge

aten = torch.ops.aten


def kernels_after_lowering(conv, *shape, **export):
    """The convolution's shape of kernel and padding in the edge program, which is checked against eager."""
    x = torch.randn(shape)
    program = to_edge(torch.export.export(conv.eval(), (x,), **export)).exported_program()
    verify(program)
    torch.testing.assert_close(program.module()(x), conv(x), rtol=1e-5, atol=1e-5)
    (node,) = calls(program.graph_module, aten.convolution.default)
    return tuple(node.args[1].meta["val"].shape[2:]), list(node.args[4])


def test_taps_of_a_kernel_that_only_meet_padding_are_cut_off():
    pyramid = [nn.Conv2d(4, 5, 3, padding=rate, dilation=rate) for rate in (4, 13, 14, 36)]
    kernels = [kernels_after_lowering(conv, 1, 4, 14, 13) for conv in pyramid]
    assert kernels == [((3, 3), [4, 4]), ((3, 1), [13, 0]), ((1, 1), [0, 0]), ((1, 1), [0, 0])]
    assert kernels_after_lowering(nn.Conv2d(4, 4, 5, 2, 2, groups=4), 2, 4, 1, 2) == ((1, 3), [0, 1])
    assert kernels_after_lowering(nn.Conv1d(4, 4, 7, padding=3), 1, 4, 3) == ((5,), [2])
    assert kernels_after_lowering(nn.Conv2d(2, 2, 1, 20, 5), 1, 2, 1, 1) == ((1, 1), [5, 5])


def test_taps_are_kept_where_the_number_of_pixels_is_symbolic():
    dims = {2: torch.export.Dim("pixels", min=2, max=64)}
    conv = nn.Conv2d(4, 4, 3, padding=9, dilation=9)
    assert kernels_after_lowering(conv, 1, 4, 5, 5, dynamic_shapes=(dims,)) == ((3, 1), [9, 0])
