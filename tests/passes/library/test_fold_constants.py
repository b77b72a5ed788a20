"""Calls that depend on constants only are computed when compiling."""

import pytest
import torch
from edge_programs import agree
from torch import nn

import edgecore


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(1, 8, 4))

    def forward(self, x):
        return x + self.table[:, :4].transpose(1, 2).exp()


def test_constants_are_folded_before_partitioning():
    pytest.importorskip("edgecore_xnnpack")
    program = edgecore.compile(Positions().eval(), (torch.randn(1, 4, 4),), backends=["xnnpack"])
    assert not program.report().left_outside
    agree(Positions(), (torch.randn(1, 4, 4),), backends=["xnnpack"])


class CrossAttention(nn.Module):
    """Splits its packed weight into that of the queries and that of the rest."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x, y):
        return self.attention(x, y, y, need_weights=False)[0]


def test_parts_of_a_constant_are_folded():
    pytest.importorskip("edgecore_xnnpack")
    inputs = (torch.randn(1, 3, 8), torch.randn(1, 5, 8))
    program = edgecore.compile(CrossAttention().eval(), inputs, backends=["xnnpack"])
    assert not program.report().left_outside
    agree(CrossAttention(), inputs, backends=["xnnpack"])
