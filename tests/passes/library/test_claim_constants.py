"""Tensors that a module writes without owning them become its state."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import edgecore


def image(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


class CacheLayer(nn.Module):
    """Writes into tensors that it does not own: they are not among its buffers."""

    def __init__(self, size):
        super().__init__()
        self.held = [torch.zeros(size, 3), torch.zeros(())]

    def forward(self, x, place):
        self.held[1].copy_(place[0] + 1)
        self.held[0].index_copy_(0, place, x)
        return self.held[0].cumsum(0) * self.held[1]


class SharedCache(nn.Module):
    """The static cache of transformers: registers the tensors of its layers as its own buffers, or as nobody's."""

    def __init__(self, registers):
        super().__init__()
        self.layer = CacheLayer(4)
        if registers:
            for index, tensor in enumerate(self.layer.held):
                self.register_buffer(f"cache_{index}", tensor, persistent=False)

    def forward(self, x, place):
        return self.layer(x, place)


@pytest.mark.parametrize("registers", [True, False])
def test_tensors_that_a_module_writes_without_owning_them_are_state(registers):
    exported = torch.export.export(SharedCache(registers).eval(), (image(1, 3), torch.tensor([0])))
    method, eager = edgecore.load(edgecore.compile(exported).buffer).forward, SharedCache(registers)
    for step in (0, 2, 1, 2):
        x, place = image(1, 3) * (step + 1), torch.tensor([step])
        torch.testing.assert_close(method(x, place), eager(x, place))
