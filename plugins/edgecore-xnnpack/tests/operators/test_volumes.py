"""Convolution and pooling of volumes [N, C, D, H, W], as images inside one delegate."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from lowered import check, check_sizes, compare, compiled, kinds
from torch import nn
from torch.export import Dim

import edgecore

LAYERS: dict[str, nn.Module] = {
    "convolution": nn.Conv3d(4, 6, 3),
    "every argument its own for each dim": nn.Conv3d(4, 6, (3, 2, 3), (2, 1, 2), (2, 1, 0), (2, 3, 1)),
    "padding beyond the last plane read": nn.Conv3d(4, 6, (2, 3, 3), (3, 1, 1), (1, 0, 0)),
    "last planes unread": nn.Conv3d(4, 6, (1, 3, 3), (4, 1, 1)),
    "kernel deeper than five": nn.Conv3d(4, 6, (7, 2, 2), padding=(3, 1, 0)),
    "groups, no bias": nn.Conv3d(4, 6, 3, groups=2, padding=1, bias=False),
    "depthwise": nn.Conv3d(4, 4, 3, groups=4, padding=1),
    "depthwise along the depth": nn.Conv3d(4, 4, (5, 1, 1), (2, 1, 1), (2, 0, 0), groups=4),
    "one pixel": nn.Conv3d(4, 6, 1),
    "one pixel with a stride": nn.Conv3d(4, 6, 1, 2),
    "planes": nn.Conv3d(4, 6, (1, 3, 3), padding=(0, 1, 1)),
    "along the depth": nn.Conv3d(4, 6, (3, 1, 1), (2, 1, 1), (1, 0, 0)),
    "even kernel to the same size": nn.Conv3d(4, 6, (2, 3, 4), padding="same"),
    "transposed": nn.ConvTranspose3d(4, 6, 3, 2, 1, 1),
    "transposed in groups": nn.ConvTranspose3d(4, 6, 2, 2, groups=2),
    "maximum": nn.MaxPool3d(3, 2, 1),
    "maximum of planes": nn.MaxPool3d((1, 3, 3), (1, 2, 2), (0, 1, 1)),
    "maximum along the depth": nn.MaxPool3d((3, 1, 1), (2, 1, 1)),
    "maximum, dilated and rounded up": nn.MaxPool3d((3, 2, 2), 2, 1, dilation=(2, 1, 3), ceil_mode=True),
    "maximum, rounded up": nn.MaxPool3d((3, 2, 2), 2, (1, 0, 1), ceil_mode=True),
    "maximum with dilation": nn.MaxPool3d(2, 1, 1, (2, 1, 3)),
    "average": nn.AvgPool3d(3, 2, 1),
    "average of what is inside": nn.AvgPool3d((3, 2, 3), (2, 1, 3), 1, count_include_pad=False),
    "average with a divisor": nn.AvgPool3d((3, 2, 3), 2, (1, 0, 1), divisor_override=5),
    "average to one pixel": nn.AdaptiveAvgPool3d(1),
    "average to a size": nn.AdaptiveAvgPool3d((4, 3, 5)),
    "average to a size that divides": nn.AdaptiveAvgPool3d((3, 3, None)),
}


def volume(*sizes: int) -> torch.Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_of_volumes_is_delegated_and_equals_eager(name: str) -> None:
    check(LAYERS[name], volume(2, 4, 6, 9, 8))


class Block(nn.Module):
    """A convolution of volumes, a residual block, one with a stride, and a head, as in a ResNet of videos."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv3d(3, 8, (3, 5, 5), (1, 2, 2), (1, 2, 2)), nn.BatchNorm3d(8), nn.ReLU())
        self.body = nn.Sequential(nn.Conv3d(8, 8, 3, padding=1, bias=False), nn.BatchNorm3d(8), nn.ReLU())
        self.narrow = nn.Sequential(nn.Conv3d(8, 12, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool3d(1))
        self.head = nn.Linear(12, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        return self.head(self.narrow((x + self.body(x)).relu()).flatten(1))


def test_consecutive_convolutions_of_volumes_keep_their_channels_last() -> None:
    found = check(Block(), volume(2, 3, 4, 12, 10))
    assert (found["Conv2d"], found["StaticTranspose"], found["Clamp"]) == (3, 1, 0)


def test_input_volumes_with_channels_last_are_read_as_they_are() -> None:
    """On our runtime: executorch's Python interface takes no such input. The result has its channels first, as in eager."""
    module = nn.Conv3d(3, 4, 3).eval()
    given = volume(1, 3, 4, 6, 5).contiguous(memory_format=torch.channels_last_3d)
    program = compiled(module, given)
    assert kinds(program)["StaticTranspose"] == 1
    with torch.no_grad():
        torch.testing.assert_close(edgecore.load(program.buffer).forward(given), module(given))


def test_a_clamp_after_a_convolution_of_a_sequence_is_part_of_it() -> None:
    assert check(nn.Sequential(nn.Conv1d(3, 4, 3), nn.ReLU6()), volume(1, 3, 9))["Clamp"] == 0


@pytest.mark.parametrize("dim", [0, 2])
def test_volumes_of_symbolic_batch_and_depth_equal_eager(dim: int) -> None:
    """A kernel with both depth and area reads slices, which have fixed lengths in XNNPACK: the depth is read along columns."""
    first = nn.Conv3d(4, 6, 3 if dim == 0 else (1, 3, 3))
    net = nn.Sequential(first, nn.ReLU(), nn.Conv3d(6, 5, (3, 1, 1), padding=(1, 0, 0)), nn.MaxPool3d((1, 2, 2)))
    shapes = [(size, 4, 5, 9, 8) if dim == 0 else (2, 4, size, 9, 8) for size in (4, 3, 7)]
    check_sizes(net, [(volume(*shape),) for shape in shapes], ({dim: Dim("s", min=3, max=8)},))


def test_a_convolution_of_a_symbolic_depth_equals_eager_where_its_slices_stay_outside() -> None:
    net = nn.Sequential(nn.Conv3d(4, 6, 3, padding=1), nn.ReLU()).eval()
    calls = [(volume(1, 4, depth, 9, 8),) for depth in (4, 3, 8)]
    program = edgecore.compile(net, calls[0], backends=["xnnpack"], dynamic_shapes=({2: Dim("d", min=3, max=8)},))
    assert {row.operator for row in program.report().left_outside} == {"aten.slice_copy.Tensor"}
    compare(program, net, calls, 1e-5)


def test_layers_of_volumes_in_fp16_are_close_to_eager() -> None:
    module, given = Block().eval(), volume(1, 3, 4, 12, 10)
    program = edgecore.compile(module, (given,), backends=[edgecore.Backend("xnnpack", force_fp16=True)])
    with torch.no_grad():
        want = module(given)
    assert float((edgecore.load(program.buffer).forward(given) - want).abs().max()) <= 5e-3 * float(want.abs().max())


def _integer_results(program: Any) -> Counter[str]:
    """Count the nodes of each kind whose result has 8 bits."""
    from edgecore_xnnpack.blob.format import read_graph
    from edgecore_xnnpack.schema import graph as g

    graph = read_graph(program.pte.delegate_blobs[0])
    tensors = [getattr(entry.value, "tensor_value", entry.value) for entry in graph.values]
    wide = {tensor.id_out for tensor in tensors if tensor.datatype != g.Datatype.QINT8}
    return Counter(type(node.node).__name__ for node in graph.nodes if node.node.output_id not in wide)


def test_integer_convolutions_of_volumes_equal_quantized_eager() -> None:
    pytest.importorskip("torchao")
    from pt2e import converted

    module, given = Block(), volume(2, 3, 4, 12, 10)
    reference = converted(module, (given,))
    backend = edgecore.Backend("xnnpack", required=True)
    program = edgecore.compile(torch.export.export(reference, (given,)), backends=[backend])
    want = reference(given)
    step = want.unique().diff().min()
    error = (edgecore.load(program.buffer).forward(given) - want).abs()
    assert error.max() <= 1.01 * step
    assert _integer_results(program)["Conv2d"] == kinds(program)["Conv2d"] == 3
