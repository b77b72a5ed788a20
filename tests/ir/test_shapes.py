"""Sizes and dims, as lowerings ask for them."""

from __future__ import annotations

import torch

from edgecore.ir.shapes import axes, pads_of_dims, rank, shape, swapped_axes


def node_of(*sizes: int) -> torch.fx.Node:
    node = torch.fx.Graph().placeholder("x")
    node.meta["val"] = torch.empty(sizes)
    return node


def test_shape_and_rank_are_those_of_the_result():
    assert shape(node_of(2, 3)) == (2, 3)
    assert (rank(node_of(2, 3)), rank(node_of())) == (2, 0)


def test_axes_are_counted_from_the_first_dim_and_none_means_all():
    node = node_of(2, 3, 4)
    assert axes([-1, 0], node) == [2, 0]
    assert axes(None, node) == axes([], node) == [0, 1, 2]


def test_swapped_axes_are_the_permutation_of_a_transpose():
    values = torch.randn(2, 3, 4)
    assert torch.equal(values.permute(swapped_axes(-1, 0, node_of(2, 3, 4))), values.transpose(-1, 0))
    assert swapped_axes(0, 0, node_of()) == []


def test_pads_begin_with_the_last_dim():
    before, after = pads_of_dims([1, 2, 3, 4], 3)
    assert (before, after) == ([0, 3, 1], [0, 4, 2])
    values = torch.randn(2, 3, 4)
    sizes = torch.nn.functional.pad(values, [1, 2, 3, 4]).shape
    assert [b + size + a for b, size, a in zip(before, values.shape, after, strict=True)] == list(sizes)
