"""Integer convolutions of images of few channels, which read pairs of columns: the same integers."""

from __future__ import annotations

import pytest
import torch
from lowered import compiled, kinds
from torch import nn

import edgecore
from edgecore_xnnpack import lowering

WITH_PAIRS = [
    nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(3, 8, 7, 2, 3), nn.Conv2d(3, 5, 3, 2), nn.Conv2d(3, 4, 2, 2),
    nn.Conv2d(3, 4, (1, 5), (1, 2), (0, 2), bias=False), nn.Conv2d(3, 4, (3, 4), (3, 2), (2, 1), (2, 1)),
]  # fmt: skip
WITHOUT = [
    nn.Conv2d(3, 8, 3, 1, 1),
    nn.Conv2d(3, 8, (3, 1), 2),
    nn.Conv2d(3, 8, 3, 2, 1, dilation=2),
    nn.Conv2d(3, 3, 3, 2, groups=3),
]


class Layers(nn.Module):
    def __init__(self, layers: list[nn.Conv2d]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [layer(x).relu() for layer in self.layers]


def test_packed_columns_give_the_same_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = pytest.importorskip("executorch.runtime")
    net, x = Layers(WITH_PAIRS + WITHOUT), torch.randn(2, 3, 14, 16)
    program = compiled(net, x, quantize="int8", calibration=[(x,)])
    monkeypatch.setattr(lowering, "pack_columns", lambda net: None)
    plain = compiled(net, x, quantize="int8", calibration=[(x,)])
    assert kinds(program)["StaticReshape"] - kinds(plain)["StaticReshape"] == len(WITH_PAIRS)
    ours, want = edgecore.load(program.buffer).forward(x), edgecore.load(plain.buffer).forward(x)
    loaded = runtime.Runtime.get().load_program(bytes(program.buffer))  # its methods do not keep it alive
    theirs = loaded.load_method("forward").execute([x])
    for one, other, expected in zip(ours, theirs, want, strict=True):
        assert torch.equal(one, expected) and torch.equal(other, expected)


@pytest.mark.parametrize(
    ("module", "shape"), [(nn.Conv2d(3, 8, 3, 2, 1), (1, 3, 9, 15)), (nn.Conv2d(5, 8, 3, 2, 1), (1, 5, 9, 16))]
)
def test_odd_widths_and_many_channels_are_not_packed(module: nn.Module, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    program = compiled(module, x, quantize="int8", calibration=[(x,)])
    assert kinds(program)["StaticReshape"] == 0
