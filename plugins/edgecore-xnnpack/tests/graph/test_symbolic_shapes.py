"""Symbolic sizes: one compiled model, one runtime, called with sizes from the min to the max and back."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from lowered import as_module, check_sizes, compare, compiled, refusals
from torch import nn
from torch.export import Dim
from torch.utils import _pytree as pytree

import edgecore
from edgecore_xnnpack.blob.format import read_graph
from edgecore_xnnpack.partitioner import XnnpackPartitioner

BATCH, LENGTH = Dim("batch", min=1, max=8), Dim("length", min=1, max=32)


def calls(shape: tuple[int, ...], *varied: tuple[int, ...], dims: tuple[int, ...] = (0,)) -> list[tuple[torch.Tensor]]:
    """Inputs of `shape` with dimensions `dims` replaced by each of `varied`; the first serves for the export."""
    result = []
    for sizes in varied:
        given = list(shape)
        for dim, size in zip(dims, sizes, strict=True):
            given[dim] = size
        result.append((torch.randn(given),))
    return result


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.Hardswish())
        self.depthwise, self.norm = nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.GroupNorm(2, 8)
        self.gate, self.up = nn.Conv2d(8, 8, 1), nn.ConvTranspose2d(8, 8, 2, 2)
        self.head = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(self.stem(x), 2)
        x = x + F.silu(self.norm(self.depthwise(x)))
        x = x * F.hardsigmoid(self.gate(F.adaptive_avg_pool2d(x, 1)))
        y = F.avg_pool2d(self.up(x), 3, 2, 1)
        return self.head(torch.cat([x, y], 1).mean((2, 3))).softmax(-1)


class Block(nn.Module):
    """A transformer's block with self-attention."""

    def __init__(self, width: int = 32, heads: int = 4, causal: bool = False) -> None:
        super().__init__()
        self.qkv, self.out, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, width), heads
        self.first, self.second, self.causal = nn.LayerNorm(width), nn.LayerNorm(width), causal
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.first(x)).chunk(3, -1)
        q, k, v = (part.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for part in parts)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed(self.second(x))


MLP = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 4), nn.Softmax(-1))


def test_a_convolutional_net_of_symbolic_batch_equals_eager() -> None:
    check_sizes(Convolutions(), calls((2, 3, 16, 20), (3,), (1,), (8,), (2,), (8,)), ({0: BATCH},))


def test_a_convolutional_net_of_symbolic_pixels_equals_eager() -> None:
    height, width = Dim("height", min=1, max=8), Dim("width", min=1, max=6)
    net = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.ReLU6(), nn.MaxPool2d(2), nn.Conv2d(4, 2, 1))
    sizes = ({2: 8 * height, 3: 8 * width},)
    check_sizes(net, calls((1, 3, 0, 0), (32, 24), (8, 8), (64, 48), (16, 40), dims=(2, 3)), sizes)


def test_a_perceptron_of_symbolic_batch_and_length_equals_eager() -> None:
    check_sizes(MLP, calls((0, 0, 8), (3, 7), (1, 1), (8, 32), (8, 1), (1, 32), dims=(0, 1)), ({0: BATCH, 1: LENGTH},))


@pytest.mark.parametrize("dim, size", [(0, BATCH), (1, LENGTH)])
def test_a_transformer_of_symbolic_batch_or_length_equals_eager(dim: int, size: object) -> None:
    varied = ((3,), (1,), (8,), (5,)) if dim == 0 else ((7,), (1,), (32,), (16,))
    check_sizes(nn.Sequential(Block(), Block()), calls((1, 7, 32), *varied, dims=(dim,)), ({dim: size},), 1e-4)


def test_a_transformer_of_symbolic_batch_and_length_equals_eager() -> None:
    inputs = calls((0, 0, 32), (3, 7), (1, 1), (8, 32), (1, 32), dims=(0, 1))
    check_sizes(nn.Sequential(Block(), Block()), inputs, ({0: BATCH, 1: LENGTH},), 1e-4)


VIEWS = {
    "split": lambda x: x.view(x.shape[0], x.shape[1], 4, 2) * 2,
    "split, the second changes last": lambda x: x.view(x.shape[0], x.shape[1], 2, 4).transpose(1, 2) * 2,
    "joined": lambda x: (x.view(x.shape[0], x.shape[1], 4, 2) * 2).flatten(2).exp(),
    "a dimension more": lambda x: [x.unsqueeze(dim) * 2 for dim in range(4)],
    "one less": lambda x: [(x.unsqueeze(dim) * 2).squeeze(dim).exp() for dim in range(4)],
}


def test_views_beside_two_symbolic_sizes_equal_eager() -> None:
    sizes = (({0: BATCH, 1: LENGTH},),)
    inputs = calls((0, 0, 8), (3, 7), (1, 1), (8, 32), (8, 1), (1, 32), dims=(0, 1))
    check_sizes(lambda x: pytree.tree_leaves([view(x) for view in VIEWS.values()]), inputs, sizes)


def test_a_quantized_net_of_symbolic_batch_equals_eager() -> None:
    net, inputs = Convolutions().eval(), calls((2, 3, 16, 16), (3,), (1,), (8,))
    program = compiled(net, *inputs[0], dynamic_shapes=({0: BATCH},), quantize="int8", calibration=inputs)
    compare(program, net, inputs, 0.01)


def test_a_quantized_mean_of_symbolic_batch_equals_eager_when_it_grows() -> None:
    net, inputs = nn.AdaptiveAvgPool2d(1).eval(), calls((2, 8, 4, 4), (3,), (1,), (8,))
    program = compiled(net, *inputs[0], dynamic_shapes=({0: BATCH},), quantize="int8", calibration=inputs)
    compare(program, net, inputs, 0.02)


def test_rows_quantized_at_run_time_of_symbolic_batch_and_length_equal_eager() -> None:
    net, inputs = MLP.eval(), calls((0, 0, 8), (3, 7), (1, 1), (8, 32), (1, 32), dims=(0, 1))
    program = compiled(net, *inputs[0], dynamic_shapes=({0: BATCH, 1: LENGTH},), quantize="int8-dynamic")
    compare(program, net, inputs, 0.1)


def test_a_recurrent_net_of_symbolic_batch_equals_eager() -> None:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.recurrent, self.head = nn.GRU(4, 6, batch_first=True), nn.Linear(6, 3)

        def forward(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
            return self.head(self.recurrent(x, state)[0][:, -1])

    inputs = [(torch.randn(batch, 5, 4), torch.randn(1, batch, 6)) for batch in (3, 1, 8)]
    check_sizes(Last(), inputs, ({0: BATCH}, {1: BATCH}))


def test_symbolic_sizes_are_zeros_in_the_file() -> None:
    program = compiled(lambda x: x.exp().flatten(1), torch.randn(3, 4, 5), dynamic_shapes=(({0: BATCH},),))
    graph = read_graph(bytes(program.pte.delegate_blobs[0]))
    assert [node.node.new_shape for node in graph.nodes if hasattr(node.node, "new_shape")] == [[0, 20]]
    assert graph.values[0].value.dims == [8, 4, 5]  # type: ignore[union-attr]


MOVES = {
    "slice of another dimension": lambda x: x[:, 1:3] * 2,
    "parts": lambda x: [part * 2 for part in x.split([1, 3], 1)],
    "select": lambda x: x[:, 1].exp(),
    "permute": lambda x: (x * 2).permute(1, 0, 2),
    "broadcast": lambda x: x + x[:, :1],
    "pad": lambda x: F.pad(x * 2, (1, 1)),
    "mean": lambda x: (x * 2).mean(1),
    "mean of the symbolic size": lambda x: (x * 2).mean(0),
    "cat": lambda x: torch.cat([x * 2, x], 2),
    "cat along the symbolic size": lambda x: torch.cat([x * 2, x], 0),
}


def test_moves_of_elements_of_symbolic_sizes_equal_eager() -> None:
    def function(x: torch.Tensor) -> list[torch.Tensor]:
        results = [move(x) for move in MOVES.values()]
        return [part for result in results for part in (result if isinstance(result, list) else [result])]

    check_sizes(function, calls((3, 4, 5), (3,), (1,), (8,)), (({0: BATCH},),))


@pytest.mark.parametrize(
    "function, dims, operator, reason",
    [
        (
            lambda x: x.view(x.shape[0], x.shape[1], 2, 2, 2).exp(),
            (0, 1),
            "view_copy",
            "a reshape to several symbolic sizes",
        ),
        (lambda x: x[:, 1:].exp(), (1,), "slice_copy", "a slice whose length depends on it"),
        (lambda x: x.sum(0).exp(), (0,), "sum", "an input of Multiply depends on it"),
        (lambda x: x.mean(2).sum(0).exp(), (0,), "sum", "depends on it"),
    ],
)
def test_an_operator_that_would_fix_a_symbolic_size_is_refused(
    function: object, dims: tuple[int, ...], operator: str, reason: str
) -> None:
    sizes = {dim: (BATCH, Dim("length", min=4, max=32))[dim] for dim in dims}
    found = refusals(function, torch.randn(3, 7, 8), dynamic_shapes=((sizes,),))
    assert any(operator in name and reason in why for name, why in found.items()), found


def test_a_size_without_bound_is_refused() -> None:
    found = refusals(lambda x: x.exp(), torch.randn(3, 4), dynamic_shapes=(({0: Dim("n", min=1)},),))
    assert "has no upper bound" in found["aten.exp.default"]


def test_a_slice_that_depends_on_the_parity_of_the_second_symbol_stays_outside() -> None:
    function = as_module(lambda x: x.exp()[:, :, ::2])
    inputs = calls((2, 3, 8), (2, 8), (3, 9), (1, 11), (8, 16), (5, 3), dims=(0, 2))
    sizes = (({0: BATCH, 2: Dim("height", min=3, max=16)},),)
    program = edgecore.compile(function, inputs[0], backends=["xnnpack"], dynamic_shapes=sizes)
    (outside,) = program.report().left_outside
    assert outside.operator == "aten.slice_copy.Tensor" and "depends on the value of" in str(outside.reasons)
    compare(program, function, inputs, 1e-5)


def test_a_layer_whose_two_batches_are_one_symbol_rounds_its_input_at_run_time() -> None:
    """Torch writes the second batch of the result as s**2 // s, which has no bound if s may be 0."""
    pytest.importorskip("torchao")
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from edgecore_xnnpack.quantizer import XNNPACKQuantizer, get_symmetric_quantization_config

    x, batch = torch.randn(2, 2, 14), Dim("batch", max=100)
    shapes = ({0: batch, 1: batch},)
    module = torch.export.export(nn.Linear(14, 15).eval(), (x,), dynamic_shapes=shapes, strict=True).module()
    config = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=True)
    prepared = prepare_pt2e(module, XNNPACKQuantizer().set_global(config))
    prepared(x)
    reference = convert_pt2e(prepared)
    edge = edgecore.to_edge(torch.export.export(reference, (x,), dynamic_shapes=shapes))
    program = edge.to_backend(XnnpackPartitioner()).to_executorch()
    loaded = edgecore.load(program.buffer)
    for size in (3, 100, 1):
        x = torch.randn(size, size, 14)
        error = loaded.forward(x) - reference(x)
        assert error.abs().max() <= 0.02 * reference(x).abs().max()
